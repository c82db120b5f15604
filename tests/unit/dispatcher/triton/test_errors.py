"""Triton's error messages, as the server sends them, and the failures they mean."""

import grpc
import pytest

from services.dispatcher.triton.errors import explain

INVALID = "[request id: <id_unknown>] "
STOPPING = "Server is stopping, scheduler for model has stopped accepting new inference requests"

# message, code of the failure, is it retryable, is the server or the model away
MESSAGES = [
    ("Request for unknown model: 'nope' is not found", "model_unavailable", True, True),
    ("Request for unknown model: 'echo' version 7 is not found", "model_not_found", False, False),
    ("Request for unknown model: 'm' has no available versions", "model_unavailable", True, True),
    (
        INVALID + "inference input 'x' data-type is 'INT32', but model 'echo' expects 'FP32'",
        "invalid_input",
        False,
        False,
    ),
    (
        INVALID + "unexpected shape for input 'a' for model 'fixed'. Expected [-1,4], got [1,5].",
        "invalid_input",
        False,
        False,
    ),
    (
        INVALID + "expected number of inputs between 2 and 3 but got 1 inputs for model 'fixed'.",
        "invalid_input",
        False,
        False,
    ),
    (INVALID + "unexpected inference input 'zzz' for model 'fixed'", "invalid_input", False, False),
    ("INVALID_ARG: not an image", "invalid_input", False, False),
    ("UNSUPPORTED: colour", "inference_refused", False, False),
    ("Failed to process the request(s) for model 'ctl_0_0', message: RuntimeError: x", "inference_failed", True, False),
    ("Request timeout expired", "triton_queue_timeout", True, False),
    ("[request id: qf5] Exceeds maximum queue size", "triton_queue_full", True, False),
    ("[request id: a] " + STOPPING, "triton_unavailable", True, True),
    ("Stub process 'ctl_0_0' is not healthy.", "model_crashed", True, True),
    (
        "[request id: 1] Failed to process the request(s) for model instance 'm', message: Stub process is not healthy",
        *("model_crashed", True, True),
    ),
    ("Failed to obtain the health mutex.", "model_crashed", True, True),
    ("in ensemble 'chain', INVALID_ARG: not an image", "invalid_input", False, False),
    ("in ensemble 'outer', in ensemble 'chain', UNSUPPORTED: colour", "inference_refused", False, False),
    ("in ensemble 'chain', unavailable as asked", "inference_failed", True, False),
    ("in ensemble 'chain', Stub process 'ctl_0_0' is not healthy.", "model_crashed", True, True),
    ("it says: in ensemble 'chain', INVALID_ARG: not an image", "inference_failed", True, False),
    ("ValueError: no such label: Stub process x is not healthy", "inference_failed", True, False),
    ("unavailable as asked", "inference_failed", True, False),
    ("", "inference_failed", True, False),
]
CALLS = [
    (
        grpc.StatusCode.UNAVAILABLE,
        "failed to connect to all addresses; last error: …",
        "triton_unavailable",
        True,
        True,
    ),
    (grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)", "triton_unavailable", True, True),
    (grpc.StatusCode.UNAVAILABLE, "[request id: qf5] Exceeds maximum queue size", "triton_queue_full", True, False),
    (grpc.StatusCode.CANCELLED, "", "triton_unavailable", True, True),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Sent message larger than max (9 vs. 8)", "too_large", False, False),
    (grpc.StatusCode.UNIMPLEMENTED, "ModelInfer RPC doesn't support models with …", "unsupported", False, False),
    (grpc.StatusCode.INTERNAL, "something else", "triton_unavailable", True, True),
]


@pytest.mark.parametrize(("message", "code", "retryable", "outage"), MESSAGES)
def test_a_message_decides_whether_a_retry_may_help(message: str, code: str, retryable: bool, outage: bool) -> None:
    error = explain(message)
    assert (error.failure.code, error.failure.retryable, error.outage) == (code, retryable, outage)


@pytest.mark.parametrize(("status", "message", "code", "retryable", "outage"), CALLS)
def test_the_status_of_a_failed_call_decides_whether_triton_is_away(
    status: grpc.StatusCode, message: str, code: str, retryable: bool, outage: bool
) -> None:
    error = explain(message, status)
    assert (error.failure.code, error.failure.retryable, error.outage) == (code, retryable, outage)


@pytest.mark.parametrize(
    ("status", "message", "refused"),
    [
        (None, "Request for unknown model: 'm' has no available versions", True),
        (None, "[request id: qf5] Exceeds maximum queue size", True),
        (None, STOPPING, True),
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: …", True),
        (None, "failed to connect to all addresses; last error: …", False),  # quoted by a model
        (grpc.StatusCode.UNAVAILABLE, "Stream removed (Socket closed)", False),
        (None, "Request timeout expired", False),
        (None, "Stub process 'ctl_0_0' is not healthy.", False),
    ],
)
def test_a_refused_request_differs_from_an_interrupted_one(
    status: grpc.StatusCode | None, message: str, refused: bool
) -> None:
    assert explain(message, status).refused is refused


def test_folders_of_the_server_and_request_ids_are_removed_and_lines_of_code_stay() -> None:
    text = "Failed to process the request(s) for model 'm_0_0', message: RuntimeError: hello"
    calls = "  /srv/models/m/1/parts/shapes.py(7): <listcomp>\n  /srv/models/m/1/model.py(16): execute\n"
    error = explain(f"[request id: job_1] {text}\n\nAt:\n{calls}")
    assert error.failure.message == f"{text} (shapes.py, line 7, in <listcomp>; model.py, line 16, in execute)"


def test_a_deep_traceback_is_cut_and_keeps_its_first_line() -> None:
    calls = "".join(f"  /lib/part{number}.py({number}): call\n" for number in range(1, 100))
    found = explain(f"{'x' * 10_000}\n\nAt:\n{calls}").failure.message
    assert (len(found), found.count("line")) == (2000, 3)
    assert "(part1.py, line 1, in call; " in found


def test_a_request_id_behind_the_name_of_an_ensemble_is_removed() -> None:
    found = explain("in ensemble 'chain', [request id: job_1] unexpected shape for input 'a'").failure.message
    assert found == "in ensemble 'chain', unexpected shape for input 'a'"


def test_a_long_message_is_truncated() -> None:
    assert len(explain("x" * 10_000).failure.message) == 2000


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:8001: Connection refused",
            "failed to connect to all addresses; last error: UNKNOWN: Connection refused",
        ),
        ("last error: UNAVAILABLE: ipv6:%5B::1%5D:8001: Socket closed", "last error: UNAVAILABLE: Socket closed"),
        ("errors resolving triton.internal:8001: [field:hostname error]", "errors: [field:hostname error]"),
        ("DNS resolution failed for triton.internal:8001: not found", "DNS resolution failed: not found"),
    ],
)
def test_the_address_of_the_server_is_not_shown(message: str, shown: str) -> None:
    assert explain(message, grpc.StatusCode.UNAVAILABLE).failure.message == shown
    assert explain(message).failure.message == message  # a model's own words
