"""What a client reads of a job that it does not get, and whether its library repeats the request."""

from http import HTTPStatus

import pytest

from services.gateway.http.problems import Problem, conflict
from services.gateway.open_inference.inference import still_running
from services.gateway.openai.calls.answer import explain
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.submission import Call
from services.gateway.openai.calls.translation import Shown
from tests.unit.gateway.samples import ROW

TIMEOUT = Problem(HTTPStatus.GATEWAY_TIMEOUT, "infer_timeout", "it continues")


@pytest.mark.parametrize(
    ("problem", "is_kept", "repeats"),
    [
        (TIMEOUT, True, True),  # to wait on
        (TIMEOUT, False, False),
        (still_running("job_x", "the gateway stops"), False, True),
        (still_running("job_x", "the gateway stops"), True, True),
        (conflict("the job is canceled"), False, False),
        (Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "inference_failed", "it failed"), True, False),
    ],
)
def test_a_library_repeats_only_what_helps(problem: Problem, is_kept: bool, repeats: bool) -> None:
    found = explain(problem, Call(Endpoint.CHAT, ROW, Shown(model="m"), is_kept, False))
    assert ("x-should-retry" not in found.headers) is repeats
    assert found.headers["X-Charonia-Job"].startswith("job_")
    assert (found.status, found.code) == (problem.status, problem.code)


def test_a_job_that_is_canceled_for_its_wait_says_so() -> None:
    assert (
        "is canceled; send an Idempotency-Key and repeat"
        in explain(TIMEOUT, Call(Endpoint.CHAT, ROW, Shown(model="m"), False, False)).detail
    )
    assert explain(TIMEOUT, Call(Endpoint.CHAT, ROW, Shown(model="m"), True, False)).detail == "it continues"


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_canceled_job_is_asked_for_again_with_a_new_key(is_kept: bool) -> None:
    found = explain(conflict("job_x is canceled"), Call(Endpoint.CHAT, ROW, Shown(model="m"), is_kept, False))
    advice = "; to ask again, send the request with a new Idempotency-Key" if is_kept else ""
    assert found.detail == f"job_x is canceled{advice}"


def test_what_a_model_refuses_names_the_parameter() -> None:
    refused = Problem(HTTPStatus.BAD_REQUEST, "invalid_input", "INVALID_ARG: stop: no")
    found = explain(refused, Call(Endpoint.CHAT, ROW, Shown(model="m"), False, False))
    assert [(each.pointer, each.detail) for each in found.errors] == [("/stop", "no")]
