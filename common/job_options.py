"""How a job runs, as a client says it in a submit, and for a step of a pipeline."""

from typing import Annotated

import msgspec
from msgspec import Meta

# PostgreSQL text cannot contain NUL.
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
Timeout = Annotated[float, Meta(ge=0.001, le=604_800)]  # seconds of one attempt
Parameters = dict[str, bool | int | float | str]


MAX_AGE = 31_536_000.0  # seconds; a year


class Reuse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lets a job take the result of another job that asked the same, or wait for one that is in flight."""

    max_age: Annotated[float, Meta(ge=0, le=MAX_AGE)]
    """How many seconds old a result may be. 0: only one that is still in flight."""


class RetryOptions(msgspec.Struct, frozen=True):
    """How to retry failed attempts: exponential backoff with full jitter."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    """The attempts until the job fails."""
    initial_delay: Annotated[float, Meta(ge=0, le=86_400)] = 1.0
    """The longest delay before the first retry, in seconds. It doubles with each further one."""
    max_delay: Annotated[float, Meta(ge=0, le=604_800)] | None = None
    """The longest delay, in seconds. By default 300, or `initial_delay` if that is longer."""

    @property
    def effective_max_delay(self) -> float:
        return max(300.0, self.initial_delay) if self.max_delay is None else self.max_delay
