"""Results are reused while the model that made them is loaded, and no longer. Triton's own counters say what ran."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.processes.ports import HOST
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from tests.support.stacks.broker_connection import wait_for_broker
from tests.support.stacks.triton_stack import TritonStack
from tests.support.waiting import eventually

CODE = """
from pathlib import Path

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self._factor = float(Path(args["model_repository"], args["model_version"], "factor").read_text())

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", (x * self._factor).astype("float32"))])
"""
CONFIG = """
name: "scale"
backend: "python"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
WEIGHTS = 'parameters { key: "charonia.weights" value { string_value: "%s" } }\n'
MANY = 20


class Scale:
    """A stack with two dispatchers of one Triton, whose model multiplies by its weights."""

    def __init__(self, stack: Stack, http: httpx.AsyncClient, triton: httpx.AsyncClient, folder: Path) -> None:
        self.stack = stack
        self._http = http
        self._triton = triton
        self._folder = folder

    async def ask(self, x: float, **options: object) -> tuple[object, bool]:
        """Run a job that may take a result of an hour. Return its output, and whether it took one."""
        body = {"model": "scale", "inputs": {"x": [[x]]}, "reuse": {"max_age": 3600}} | options
        answer = await self._http.post("/v1/jobs", json=body, headers={"Prefer": "wait=60"})
        assert answer.is_success, answer.text
        job: dict[str, Any] = answer.json()
        assert job["status"] == "succeeded", job
        return job["outputs"][0]["data"][0], job.get("reused_from") is not None

    async def count(self) -> int:
        """Return how many requests Triton has run since the model was loaded."""
        answer = (await self._triton.get("/v2/models/scale/stats")).raise_for_status().json()
        count: int = answer["model_stats"][0]["inference_stats"]["success"]["count"]
        return count

    async def read_loaded_at(self) -> str | None:
        found: str | None = (await self._http.get("/v1/models/scale")).raise_for_status().json()["loaded_at"]
        return found

    async def change(self, factor: float, config: str = CONFIG) -> None:
        """Load the model over itself with other weights, and wait until Charonia has seen it."""
        changed_at = datetime.now(UTC)
        (self._folder / "1" / "factor").write_text(str(factor))
        (self._folder / "config.pbtxt").write_text(config)
        await asyncio.to_thread(self.stack.triton.models.load, "scale")
        await self.until_loaded_after(changed_at)

    async def until_loaded_after(self, moment: datetime) -> None:
        async def poll() -> bool:
            loaded_at = await self.read_loaded_at()
            return loaded_at is not None and datetime.fromisoformat(loaded_at) > moment

        await eventually(poll, "the new load is seen")

    async def is_away(self) -> bool:
        ready: bool = (await self._http.get("/v1/models/scale")).raise_for_status().json()["ready"]
        return not ready

    @asynccontextmanager
    async def killed(self) -> AsyncIterator[None]:
        """Kill Triton, and start it again at the end. A restart that nobody sees shows only in its counters, later."""
        killed_at = datetime.now(UTC)
        await asyncio.to_thread(self.stack.triton.kill)
        try:
            yield
            await eventually(self.is_away, "the kill is seen")
        finally:
            await asyncio.to_thread(self.stack.triton.start)
            await asyncio.to_thread(self.stack.triton.wait_ready)
        await self.until_loaded_after(killed_at)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model, in a repository of its own."""
    found = tmp_path_factory.mktemp("scale") / "models" / "scale"
    (found / "1").mkdir(parents=True)
    (found / "1" / "model.py").write_text(CODE)
    (found / "1" / "factor").write_text("2")
    (found / "config.pbtxt").write_text(CONFIG)
    return found


@pytest.fixture(scope="module")
def own(stack: Stack, tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Stack]:
    settings = Settings.private(tmp_path_factory.mktemp("own"), dispatchers=2, notifiers=0)
    own = TritonStack(stack, replace(settings, model_repository=folder.parent, model_control="explicit"))
    try:
        with own:
            wait_for_broker(*own.gateways)
            yield own
    finally:
        own.postgres.delete()


@pytest.fixture
async def scale(own: Stack, folder: Path) -> AsyncIterator[Scale]:
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
    async with (
        httpx.AsyncClient(base_url=own.url, headers=headers, timeout=90) as http,
        httpx.AsyncClient(base_url=f"http://{HOST}:{own.settings.triton_http_port}", timeout=20) as triton,
    ):
        scale = Scale(own, http, triton, folder)
        await scale.until_loaded_after(datetime.min.replace(tzinfo=UTC))
        yield scale


async def test_other_weights_answer_for_themselves(scale: Scale) -> None:
    assert await scale.ask(1.0) == (2.0, False)
    assert await scale.ask(1.0) == (2.0, True)
    await scale.change(3.0)
    assert await scale.ask(1.0) == (3.0, False)
    assert await scale.ask(1.0) == (3.0, True)
    assert await scale.count() == 1
    await scale.change(2.0)  # the weights of before are another load, too
    assert await scale.ask(1.0) == (2.0, False)


async def test_a_question_is_answered_once_by_each_load(scale: Scale) -> None:
    """Also right after a start of Triton, when both dispatchers may run jobs."""
    before = await scale.count()
    answers = await asyncio.gather(*(scale.ask(4.0) for _ in range(MANY)))
    assert sorted(is_reused for _, is_reused in answers) == [False] + [True] * (MANY - 1)
    assert await scale.count() == before + 1
    async with scale.killed():
        asking = [asyncio.create_task(scale.ask(4.0, reuse={"max_age": 0})) for _ in range(MANY)]
    answers = await asyncio.gather(*asking)
    assert sorted(is_reused for _, is_reused in answers) == [False] + [True] * (MANY - 1)
    assert await scale.count() == 1


async def test_a_killed_broker_costs_no_execution(scale: Scale) -> None:
    before, broker = await scale.count(), scale.stack.rabbitmq
    await asyncio.to_thread(broker.kill)
    try:
        asking = [asyncio.create_task(scale.ask(9.0)) for _ in range(MANY)]
    finally:
        await asyncio.to_thread(broker.start)
    answers = await asyncio.gather(*asking)
    assert sorted(is_reused for _, is_reused in answers) == [False] + [True] * (MANY - 1)
    assert await scale.count() == before + 1


async def test_a_restart_of_dispatchers_is_no_other_load(scale: Scale) -> None:
    await scale.ask(5.0)
    before, loaded_at = await scale.count(), await scale.read_loaded_at()
    for dispatcher in scale.stack.dispatchers:
        await asyncio.to_thread(dispatcher.kill)
    for dispatcher in scale.stack.dispatchers:
        await asyncio.to_thread(dispatcher.start)
        await asyncio.to_thread(dispatcher.wait_ready)
    assert (await scale.ask(6.0))[1] is False
    assert (await scale.ask(5.0))[1] is True
    assert (await scale.count(), await scale.read_loaded_at()) == (before + 1, loaded_at)


async def test_results_of_named_weights_outlive_triton(scale: Scale) -> None:
    await scale.change(7.0, CONFIG + WEIGHTS % "seven")
    assert await scale.ask(1.0) == (7.0, False)
    async with scale.killed():
        assert await scale.ask(1.0) == (7.0, True)
    assert await scale.ask(1.0) == (7.0, True)
    assert await scale.count() == 0
    await scale.change(8.0, CONFIG + WEIGHTS % "eight")
    assert await scale.ask(1.0) == (8.0, False)
