"""Errors of a real Triton and the failures they become."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from common import tensors
from common.tensors import Datatype, Tensor
from deploy.local.processes.ports import free_ports
from deploy.local.servers.triton import Triton as Server
from deploy.local.settings import Settings
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import InferenceError, TritonUnavailable
from services.dispatcher.triton.inference import infer
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.request import InferenceRequest
from tests.integration.dispatcher.inference import LIMIT, connect, fail, integer, read, run, text
from tests.integration.waiting import until


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Server]:
    """A server with only the faulty model, which this test may break."""
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
async def test_the_error_of_a_failing_model_gets_its_code(
    client: TritonClient, mode: str, code: str, retryable: bool
) -> None:
    failure = await fail(client, "faulty", text("mode", mode))
    assert (failure.code, failure.retryable) == (code, retryable)
    assert "/model.py" not in failure.message


async def test_a_temporary_failure_is_over_at_the_next_attempt(client: TritonClient) -> None:
    given = (text("mode", "fail_times"), integer("value", 1), text("key", "passing"))
    assert (await fail(client, "faulty", *given)).retryable
    assert read(await run(client, "faulty", *given)) == [["ok"]]


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor("x", Datatype.INT32, [1, 1], bytes(4)),
        Tensor("x", Datatype.FP32, [1], bytes(4)),
        Tensor("z", Datatype.FP32, [1, 1], bytes(4)),
    ],
)
async def test_an_input_that_does_not_fit_is_invalid(client: TritonClient, tensor: Tensor) -> None:
    failure = await fail(client, "echo", tensor)
    assert (failure.code, failure.retryable) == ("invalid_input", False)


@pytest.mark.parametrize(
    ("model", "version", "code"),
    [("nope", None, "model_unavailable"), ("nope", "7", "model_unavailable"), ("echo", "7", "model_not_found")],
)
async def test_only_an_unknown_version_is_an_error_of_the_request(
    client: TritonClient, model: str, version: str | None, code: str
) -> None:
    described = ModelVersion(model, "1", False, 0, 1, [], [])
    with pytest.raises(InferenceError) as caught:
        await infer(client, InferenceRequest("job_1", model, version, tensors.pack([]), None, 10.0, LIMIT), described)
    found = caught.value
    away = code == "model_unavailable"  # the server may have restarted, and not have loaded its models yet
    assert (found.failure.code, found.outage, found.refused, found.failure.retryable) == (code, away, away, away)


async def test_a_message_over_the_limit_is_not_retried(client: TritonClient) -> None:
    failure = await fail(client, "echo", Tensor("x", Datatype.FP32, [1, LIMIT // 4], bytes(LIMIT)))
    assert (failure.code, failure.retryable) == ("too_large", False)


async def test_an_absent_server_is_unavailable_and_an_outage() -> None:
    client = TritonClient(f"127.0.0.1:{free_ports(1)[0]}", LIMIT)
    try:
        with pytest.raises(TritonUnavailable):
            await client.list_ready()
        with pytest.raises(TritonUnavailable):
            await client.describe("echo", "1")
        with pytest.raises(InferenceError) as caught:
            await infer(
                client,
                InferenceRequest("j", "echo", None, tensors.pack([]), None, 10.0, LIMIT),
                ModelVersion("echo", "1", False, 0, 1, [], []),
            )
    finally:
        await client.close()
    assert (caught.value.failure.code, caught.value.outage) == ("triton_unavailable", True)


@pytest.mark.triton
async def test_a_crash_during_an_attempt_is_an_outage_and_the_client_reconnects(fragile: Server) -> None:
    client = connect(fragile)
    try:
        with pytest.raises(InferenceError) as caught:
            await run(client, "faulty", text("mode", "crash_server"))
        assert (caught.value.failure.code, caught.value.outage) == ("triton_unavailable", True)
        await asyncio.to_thread(fragile.restart)

        async def ready() -> bool:
            try:
                return ("faulty", "1") in await client.list_ready()
            except TritonUnavailable:
                return False

        await until(ready, "the same client reaches the new server")
        assert read(await run(client, "faulty", text("mode", "ok"))) == [["ok"]]
        with pytest.raises(InferenceError) as caught:
            await run(client, "faulty", text("mode", "kill"))
        assert (caught.value.failure.code, caught.value.outage) == ("model_crashed", True)
        assert await client.list_ready() == set()
        with pytest.raises(TritonUnavailable):  # this server does not allow a reload
            await client.unload_stalled("faulty")
        await asyncio.to_thread(fragile.kill)
        await asyncio.to_thread(fragile.start)
        await until(ready, "the new process is recognized")
        assert read(await run(client, "faulty", text("mode", "ok"))) == [["ok"]]
    finally:
        await client.close()
