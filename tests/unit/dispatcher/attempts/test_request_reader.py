"""A job whose inputs a later release stored is given back, and the attempt never counts."""

import asyncio

import msgspec
import pytest

from common.settings import INLINE_SIZE
from services.dispatcher.attempts.request_reader import NEWER_FORMAT, NEWER_FORMAT_SECONDS, RequestReader
from services.dispatcher.failures.failure_policy import classify
from services.dispatcher.failures.retry_policy import Refused
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.errors import InferenceError
from services.dispatcher.triton.model_version import ModelVersion
from tests.support.database.later_release import NEWER_INPUTS
from tests.support.inputs_in_rows import NoFiles, NoUrls
from tests.unit.dispatcher.jobs import claimed, make_running

ECHO = ModelVersion("echo", "1", False, 0, 1, [], [])


@pytest.mark.parametrize("packed", NEWER_INPUTS)
async def test_inputs_of_a_later_release_refuse_the_job(packed: bytes) -> None:
    running = make_running(msgspec.structs.replace(claimed(), tensors=packed))
    reader = RequestReader(NoFiles(), NoUrls(), 1000, INLINE_SIZE)
    with pytest.raises(InferenceError) as caught:
        await reader.read(running, ECHO)
    model = ServedModel("echo", asyncio.Event())
    model.available.set()
    assert classify(model, caught.value, running.job.id, 0.0) == Refused(NEWER_FORMAT, NEWER_FORMAT_SECONDS)
    assert model.available.is_set()  # other jobs run
