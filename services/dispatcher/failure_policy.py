"""Applies a failed attempt to its model, and classifies it for the retry decision."""

from services.dispatcher import retry
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.errors import MODEL_CRASHED, InferenceError


def classify(model: ServedModel, error: InferenceError) -> retry.Outcome:
    """Return the outcome for the job, after the model has reacted to the error."""
    if error.outage:
        model.mark_unavailable()
    if error.failure.code in ("invalid_input", "invalid_output"):
        model.describe_again()
    if error.failure.code == MODEL_CRASHED:
        model.refresh_requested.set()  # so that the next refresh sees the model restart
    if error.is_queue_full:
        model.note_queue_full()
    if error.refused:
        return retry.Refused(error.failure)
    return retry.Interrupted(error.failure) if error.outage else retry.Attempted(error.failure)
