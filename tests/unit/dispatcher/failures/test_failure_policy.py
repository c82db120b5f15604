"""A failed attempt changes its model and gets its outcome."""

import asyncio

import pytest

from common import ids
from common.job_states import Failure
from services.dispatcher.failures import retry_policy
from services.dispatcher.failures.failure_policy import classify
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.errors import MODEL_CRASHED, QUEUE_FULL, InferenceError

JOB = ids.new()


@pytest.fixture
def model() -> ServedModel:
    found = ServedModel("echo", asyncio.Event())
    found.concurrency.resize(8)
    found.available.set()
    return found


def test_an_outage_makes_the_model_unavailable(model: ServedModel) -> None:
    failure = Failure("triton_unavailable", "away", True)
    assert classify(model, InferenceError(failure, outage=True), JOB, 1.0) == retry_policy.Interrupted(failure)
    assert (model.available.is_set(), model.refresh_requested.is_set()) == (False, True)


def test_a_crash_stops_the_model_and_gives_the_attempt_back(model: ServedModel) -> None:
    failure = Failure(MODEL_CRASHED, "Stub process 'echo_0_0' is not healthy.", True)
    assert classify(model, InferenceError(failure, outage=True), JOB, 1.0) == retry_policy.Interrupted(failure)
    assert (model.available.is_set(), model.refresh_requested.is_set(), model.breaker.is_open) == (False, True, True)


def test_a_timeout_is_the_fault_of_the_job_until_another_one_follows(model: ServedModel) -> None:
    error = InferenceError(Failure("timeout", "too long", True))
    assert classify(model, error, JOB, 1.0) == retry_policy.Attempted(error.failure)
    assert classify(model, error, JOB, 1.0) == retry_policy.Attempted(error.failure)
    assert classify(model, error, ids.new(), 1.0) == retry_policy.Interrupted(error.failure)
    assert (model.breaker.is_open, model.available.is_set()) == (True, True)


def test_jobs_that_read_for_too_long_do_not_stop_their_model(model: ServedModel) -> None:
    error = InferenceError(Failure("input_timeout", "too long", True))
    for _ in range(5):
        assert classify(model, error, ids.new(), 1.0) == retry_policy.Attempted(error.failure)
    assert not model.breaker.is_open


@pytest.mark.parametrize("code", ["inference_failed", "inference_refused", "invalid_output"])
def test_an_error_of_the_model_shows_that_it_works(model: ServedModel, code: str) -> None:
    model.breaker.note_crash()
    classify(model, InferenceError(Failure(code, "as it happens", True)), JOB, 1.0)
    assert not model.breaker.is_open


def test_a_full_queue_halves_the_limit(model: ServedModel) -> None:
    failure = Failure(QUEUE_FULL, "Exceeds maximum queue size", True)
    model.concurrency.used = 8
    assert classify(model, InferenceError(failure, refused=True), JOB, 1.0) == retry_policy.Refused(failure)
    assert (model.concurrency.limit, model.available.is_set()) == (4, True)


@pytest.mark.parametrize(
    ("code", "refresh"), [("inference_failed", False), ("invalid_input", True), ("invalid_output", True)]
)
def test_a_failure_of_the_job_counts_and_may_mean_a_reload(model: ServedModel, code: str, refresh: bool) -> None:
    failure = Failure(code, "as it happens", True)
    assert classify(model, InferenceError(failure), JOB, 1.0) == retry_policy.Attempted(failure)
    assert (model.concurrency.limit, model.available.is_set(), model.refresh_requested.is_set()) == (8, True, refresh)


def test_a_job_whose_files_cannot_be_read_waits_and_its_model_runs_on(model: ServedModel) -> None:
    failure = Failure("store_unavailable", "away", True)
    found = classify(model, InferenceError(failure, refused=True, delay=8.0), JOB, 1.0)
    assert (found, model.available.is_set(), model.breaker.is_open) == (retry_policy.Refused(failure, 8.0), True, False)
    assert classify(model, InferenceError(failure, refused=True, delay=0.0), JOB, 1.0) == retry_policy.Refused(failure)
