"""Response bodies of the batch calls."""

import msgspec

from common.views.batch import BatchView
from services.gateway.http.problems import FieldError


class ItemError(msgspec.Struct, frozen=True):
    """Why an item of a batch was refused. `index` counts from 0. The rest is as in the problem of a single job."""

    index: int
    type: str
    detail: str
    errors: list[FieldError]


class BatchAccepted(BatchView, frozen=True, kw_only=True):
    """The batch, and its refused items."""

    errors: list[ItemError]
