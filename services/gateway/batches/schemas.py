"""Request and response bodies of the batch calls."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from common.views.batch import BatchView
from common.views.job import JobView
from services.gateway.http.problems import FieldError
from services.gateway.jobs.schemas import SubmitJob

# PostgreSQL text cannot contain NUL.
CustomId = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
NO_DEFAULT = {"inputs"}  # each job has its own


class BatchJob(SubmitJob, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job of a batch: a job with a name for the results, which is unique in the batch."""

    custom_id: CustomId | None = None


def make_defaults() -> type[msgspec.Struct]:
    """Return a struct with the fields of a job that a batch can give once for all jobs. Each is optional."""
    fields: list[tuple[str, Any, Any]] = [
        (field.name, field.type | msgspec.UnsetType, msgspec.UNSET)
        for field in msgspec.structs.fields(SubmitJob)
        if field.name not in NO_DEFAULT
    ]
    kind = msgspec.defstruct("BatchDefaults", fields, frozen=True, kw_only=True, forbid_unknown_fields=True)
    kind.__doc__ = "Fields for all jobs of a batch. A field of a job replaces the default as a whole."
    return kind


BatchDefaults = make_defaults()


class DefaultsLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a batch, or the first element of its list, may give defaults for all jobs."""

    defaults: BatchDefaults  # type: ignore[valid-type]


class ItemError(msgspec.Struct, frozen=True):
    """Why an item of a batch was refused. `index` counts jobs from 0. The rest is as in the problem of a single job."""

    index: int
    custom_id: str | None
    type: str
    detail: str
    errors: list[FieldError]


class ItemProblem(msgspec.Struct, frozen=True):
    """Why an item has no job, as in the problem of a single job. Code `not_found`: the job was removed since."""

    type: str
    detail: str
    errors: list[FieldError]


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the results: the item's job with its outputs, or the error why there is none."""

    index: int
    custom_id: str | None
    job: JobView | None
    error: ItemProblem | None


class BatchAccepted(BatchView, frozen=True, kw_only=True):
    """The batch, and its refused items."""

    errors: list[ItemError]
