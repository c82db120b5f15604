"""What a failed attempt says of its job, and of the model."""

from services.dispatcher import retry
from services.dispatcher.catalogue import Runnable
from services.dispatcher.triton import MODEL_CRASHED, InferenceError


def judge(model: Runnable, error: InferenceError) -> retry.Outcome:
    """What a failed attempt says of the job, after the model has heeded what it says of the server."""
    if error.outage:
        model.suspect()
    if error.failure.code in ("invalid_input", "invalid_output"):
        model.doubt()
    if error.failure.code == MODEL_CRASHED:
        model.alarm.set()  # from now on a look at Triton sees it restart
    if error.crowded:
        model.slots.shrink()
    if error.refused:
        return retry.Refused(error.failure)
    return retry.Interrupted(error.failure) if error.outage else retry.Attempted(error.failure)
