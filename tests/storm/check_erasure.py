"""Checks that nothing of an erased job is left. Pure."""

from collections.abc import Iterator, Sequence

import msgspec

from tests.storm.api_state import ApiState
from tests.storm.storm_log import Delivery, Submission
from tests.support.api.api_client import Job

RULE = "nothing of an erased job is left"


def was_erased(submission: Submission, job: Job) -> bool:
    """Return whether a job must be erased: a call was accepted, or one may have been and the payload is gone."""
    outcomes = {call.outcome for call in submission.erasures}
    return "accepted" in outcomes or ("unknown" in outcomes and not job.metadata)


def restore(job: Job, deliveries: Sequence[Delivery]) -> Job:
    """Return an erased job with the payload that the webhook of its end had, so that the other rules can look at it."""
    for delivery in deliveries:
        told = delivery.event and delivery.event.data
        if told and (told.status, told.finished_at) == (job.status, job.finished_at):
            payload = ("outputs", "outputs_omitted", "error", "metadata")
            told_payload = {name: getattr(told, name) for name in payload}
            return msgspec.structs.replace(job, **told_payload, webhook_status="succeeded")
    return job


def check_erased(job: Job, state: ApiState) -> Iterator[tuple[str, str, str, str]]:
    """Check an erased job, and the jobs of its steps."""
    if job.metadata or job.webhook_status != "none":
        yield job.id, RULE, "no metadata and no webhooks", f"{job.metadata}, webhooks {job.webhook_status}"
    for each in (job, *state.steps.get(job.id, [])):
        if each.outputs is not None or (each.status == "succeeded") != (each.outputs_omitted == "erased"):
            yield each.id, RULE, "no outputs", f"{each.outputs}, outputs_omitted {each.outputs_omitted}"
        errors = [each.error, *(attempt.error for attempt in state.attempts.get(each.id, []))]
        if messages := [error.message for error in errors if error is not None and error.message]:
            yield each.id, RULE, "no messages of errors", "; ".join(messages)
        if left := state.left.get(each.id):
            yield each.id, RULE, "nothing", left
