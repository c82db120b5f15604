"""What the dispatcher makes of everything that can go wrong at a real Triton."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from common import tensors
from common.tensors import Datatype, Tensor
from deploy.local.ports import free_ports
from deploy.local.settings import Settings
from deploy.local.triton import Triton as Server
from services.dispatcher.inference import Question, infer
from services.dispatcher.triton import InferenceError, Model, Triton, TritonDown
from tests.integration.dispatcher.asking import LIMIT, ask, fail, integer, read, text
from tests.integration.waiting import until


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Server]:
    """A server with the faulty model alone, for this test to break."""
    settings = Settings()
    repository = tmp_path / "models"
    repository.mkdir()
    (repository / "faulty").symlink_to(settings.model_repository / "faulty")
    grpc_port, http_port, metrics_port = free_ports(3)
    server = Server(tmp_path, repository, grpc_port, http_port, metrics_port, settings.triton_venv)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("mode", "code", "retryable"),
    [
        ("raise", "inference_failed", True),
        ("invalid", "invalid_input", False),
        ("unavailable", "inference_failed", True),
        ("missing_output", "invalid_output", False),
        ("wrong_datatype", "invalid_output", False),
        ("wrong_shape", "invalid_output", False),
        ("unheard of", "invalid_input", False),
    ],
)
async def test_a_failing_model_is_understood(client: Triton, mode: str, code: str, retryable: bool) -> None:
    failure = await fail(client, "faulty", text("mode", mode))
    assert (failure.code, failure.retryable) == (code, retryable)
    assert "/model.py" not in failure.message


async def test_a_failure_that_passes_is_over_the_next_time(client: Triton) -> None:
    given = (text("mode", "fail_times"), integer("value", 1), text("key", "passing"))
    assert (await fail(client, "faulty", *given)).retryable
    assert read(await ask(client, "faulty", *given)) == [["ok"]]


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("x", Datatype.INT32, [1, 1], bytes(4)),
        Tensor("x", Datatype.FP32, [1], bytes(4)),
        Tensor("z", Datatype.FP32, [1, 1], bytes(4)),
    ],
)
async def test_an_input_that_does_not_fit_is_the_clients_fault(client: Triton, tensor: Tensor) -> None:
    failure = await fail(client, "echo", tensor)
    assert (failure.code, failure.retryable) == ("invalid_input", False)


async def test_an_unknown_model_is_not_tried_again(client: Triton) -> None:
    described = Model("nope", "1", False, 0, 1, [], [])
    with pytest.raises(InferenceError) as caught:
        await infer(client, Question("job_1", "nope", None, tensors.pack([]), None, 10.0), described)
    assert (caught.value.failure.code, caught.value.outage) == ("model_not_found", False)


async def test_a_message_over_the_limit_is_not_tried_again(client: Triton) -> None:
    failure = await fail(client, "echo", Tensor("x", Datatype.FP32, [1, LIMIT // 4], bytes(LIMIT)))
    assert (failure.code, failure.retryable) == ("too_large", False)


async def test_an_absent_server_is_down_and_an_outage() -> None:
    client = Triton(f"127.0.0.1:{free_ports(1)[0]}", LIMIT)
    try:
        with pytest.raises(TritonDown):
            await client.list_ready()
        with pytest.raises(TritonDown):
            await client.describe("echo", "1")
        with pytest.raises(InferenceError) as caught:
            await infer(
                client,
                Question("j", "echo", None, tensors.pack([]), None, 10.0),
                Model("echo", "1", False, 0, 1, [], []),
            )
    finally:
        await client.close()
    assert (caught.value.failure.code, caught.value.outage) == ("triton_unavailable", True)


async def test_a_crash_under_an_attempt_is_an_outage_and_the_client_finds_back(fragile: Server) -> None:
    client = Triton(fragile.grpc_address, LIMIT)
    try:
        with pytest.raises(InferenceError) as caught:
            await ask(client, "faulty", text("mode", "crash_server"))
        assert (caught.value.failure.code, caught.value.outage) == ("triton_unavailable", True)
        await asyncio.to_thread(fragile.restart)

        async def ready() -> bool:
            try:
                return ("faulty", "1") in await client.list_ready()
            except TritonDown:
                return False

        await until(ready, "the same client reaches the new server")
        assert read(await ask(client, "faulty", text("mode", "ok"))) == [["ok"]]
        assert (await fail(client, "faulty", text("mode", "kill"))).code == "model_crashed"
    finally:
        await client.close()
