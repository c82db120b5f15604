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
    """A job of a batch. A missing field has the default of the batch, or else that of a submit."""

    custom_id: CustomId | None = None
    """Your name for the item, unique in the batch. Its result and its error have it."""


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
    """Fields for all jobs. A field of a job replaces the default as a whole."""


class ItemError(msgspec.Struct, frozen=True):
    """Why an item of a batch was refused."""

    index: int
    """The position of the item among the jobs of the request, from 0. Defaults are not counted."""
    custom_id: str | None
    """Your name for the item; null without one."""
    type: str
    """The type of the problem that the item alone would get."""
    detail: str
    """What is wrong with the item."""
    errors: list[FieldError]
    """The invalid fields of the item."""


class ItemProblem(msgspec.Struct, frozen=True):
    """Why an item has no job, as in the problem of a single job."""

    type: str
    """`urn:charonia:problem:` and a stable error code. It is `not_found` for a job that was removed since."""
    detail: str
    """What is wrong, for people. It may change."""
    errors: list[FieldError]
    """The invalid fields of the item."""


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the results: the item's job with its outputs, or the error why there is none."""

    index: int
    """The position of the item among the jobs of the request, from 0. Defaults are not counted."""
    custom_id: str | None
    """Your name for the item; null without one."""
    job: JobView | None
    """The job with its outputs, without its queue position and webhook status; null if there is none."""
    error: ItemProblem | None
    """Why there is no job; null if there is one."""


class BatchAccepted(BatchView, frozen=True, kw_only=True):
    """The batch, and its refused items."""

    errors: list[ItemError]
    """The items that did not become jobs."""
