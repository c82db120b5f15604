"""The types of events in the contract, and the order of a job's events. Pure."""

from typing import Annotated

from msgspec import Meta

from common.job_states import TERMINAL, Status

TERMINAL_EVENTS = tuple(f"job.{status}" for status in Status if status in TERMINAL)
OPERATIONAL_EVENTS = ("webhook.disabled", "delivery.exhausted")
EVENT_TYPES = ("job.started", *TERMINAL_EVENTS, "batch.completed", "webhook.test", *OPERATIONAL_EVENTS)
# Of subscriptions with the format `openai`; openai_event_type in the database says which event has which.
OPENAI_EVENT_TYPES = (
    *(f"response.{end}" for end in ("completed", "failed", "cancelled", "incomplete")),
    *(f"batch.{end}" for end in ("completed", "failed", "cancelled", "expired")),
)
DELIVERED_TYPES = tuple(dict.fromkeys((*EVENT_TYPES, *OPENAI_EVENT_TYPES)))
JOB_EVENT_TYPES = tuple(each for each in EVENT_TYPES if each.startswith("job."))
# In the streams of runs only.
STEP_EVENTS = ("step.started", "step.succeeded", "step.failed", "step.canceled")
NUMBERS_PER_CLAIM = 1000  # so that a later release has room for events between a start and its end
JobEventType = Annotated[str, Meta(extra_json_schema={"enum": [*JOB_EVENT_TYPES]})]


def number_event(event_type: str, claim: int) -> int:
    """Return the place of an event among those of its job, by the job's claim. Later events have greater numbers.

    The start of a claim has its first number, and the job's end its last.
    """
    return claim * NUMBERS_PER_CLAIM + (1 if event_type == "job.started" else NUMBERS_PER_CLAIM - 1)


def list_patterns(event_type: str) -> list[str]:
    """Return the patterns that match an event type. `*` stands for one word, or alone for every type.

    A later release may have a type of other than two words. The database's `event_patterns` agrees.
    """
    first, second, *_ = *event_type.split("."), ""
    return [event_type, f"{first}.*", f"*.{second}", "*.*", "*"]
