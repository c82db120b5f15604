"""Applies a failed attempt to its model, and classifies it for the retry decision."""

from uuid import UUID

from services.dispatcher.failures import retry_policy
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.errors import MODEL_CRASHED, InferenceError

# Failures by which a model shows that it works. `invalid_input` is not among them: Triton itself checks inputs.
ANSWERS = ("inference_failed", "inference_refused", "invalid_output")


def classify(model: ServedModel, error: InferenceError, job: UUID, seconds: float) -> retry_policy.Outcome:
    """Return the outcome for a job whose inference took this long, after the model has reacted to the error."""
    code = error.failure.code
    if error.outage:
        model.mark_unavailable()
    if code in ("invalid_input", "invalid_output"):
        model.describe_again()
    if code in ANSWERS:
        model.breaker.note_answer()
    if code == MODEL_CRASHED and not error.refused:
        model.breaker.note_crash()
    if error.is_queue_full:
        model.note_queue_full()
    if error.refused:
        return retry_policy.Refused(error.failure, max(retry_policy.REFUSED_DELAY_SECONDS, error.delay or 0.0))
    if error.outage or (code == "timeout" and model.breaker.note_timeout(job, seconds)):
        return retry_policy.Interrupted(error.failure)
    return retry_policy.Attempted(error.failure)
