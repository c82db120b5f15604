"""Runs of two pipelines, and what dispatchers do for them."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from common import ids, tensors
from common.job_states import Failure
from common.jobs.job import JobToRun
from common.jobs.run import find_due_runs, find_overdue_runs
from common.pipelines.definition import PipelineDefinition
from common.pipelines.run_state import begin, encode
from common.runs.progress import RunCarrier
from common.tensors import Datatype, Signature, Tensor
from services.dispatcher.failures import retry_policy
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.triton.responses import InferenceResult
from tests.integration.jobs import TRACEPARENT, claim
from tests.integration.world import World
from tests.support.carrier import make_carrier

CHAIN: dict[str, Any] = {
    "inputs": {"x": {"datatype": "FP32", "shape": [-1]}},
    "steps": {
        "first": {"model": "a", "inputs": {"x": "$inputs.x"}},
        "each": {"model": "b", "inputs": {"x": "$first.y", "whole": "$inputs.x"}, "for_each": "x"},
        "last": {"model": "c", "inputs": {"x": "$each.y"}},
    },
    "outputs": {"result": "$last.y", "all": "$each.y"},
}
SINGLE: dict[str, Any] = {
    "inputs": {"x": {"datatype": "FP32", "shape": [-1]}},
    "steps": {"first": {"model": "a", "inputs": {"x": "$inputs.x"}}},
    "outputs": {"result": "$first.y"},
}
PIPELINES = {"chain": CHAIN, "single": SINGLE}
Y, UNUSED = Signature("y", Datatype.FP32, [-1]), Signature("unused", Datatype.FP32, [-1])
OUTPUTS = {"first": [Y], "each": [Y, UNUSED], "last": [Y]}
RUN = """
INSERT INTO live_runs (id, generation, tenant_id, model, version, priority, status, attempt, max_attempts,
                       scheduled_at, timeout, initial_delay, max_delay, traceparent, tensors, run_state, callback_url,
                       callback_events)
VALUES ($1, -1, $2, $6, '1', 'normal', 'queued', 0, 1, now(), 60, 0, 0, $3, $4, $5, 'https://a/b',
        '{job.succeeded}')
"""
STEPS = "SELECT id, step, step_index, status FROM jobs WHERE parent = $1 ORDER BY step, step_index"


def pack(name: str, values: Sequence[float]) -> bytes:
    """Return one tensor of FP32, packed."""
    return tensors.pack([Tensor(name, Datatype.FP32, [len(values)], array("f", values).tobytes())])


class Runs:
    """Runs of the pipelines CHAIN and SINGLE, whose models add one, double, and sum."""

    def __init__(self, world: World, carrier: RunCarrier | None = None) -> None:
        self.world = world
        self.database = world.database
        self.progress = RunProgress(world.database, carrier or make_carrier(world.database), world.changes)

    async def add(self, *values: float, pipeline: str = "chain") -> UUID:
        """Add a run with these values as its input. It waits for the sweep."""
        definition = msgspec.json.decode(msgspec.json.encode(PIPELINES[pipeline]), type=PipelineDefinition)
        await self.database.fetch(
            "INSERT INTO pipelines (tenant_id, name, version, definition, inputs, outputs) "
            "VALUES ($1, $4, 1, $2, '[]', $3) ON CONFLICT DO NOTHING",
            self.world.tenant,
            msgspec.json.encode(definition),
            msgspec.json.encode({step: OUTPUTS[step] for step in definition.steps}),
            pipeline,
        )
        run = ids.new()
        packed = pack("x", values)
        state = encode(begin([*definition.steps]))
        await self.database.fetch(RUN, run, self.world.tenant, TRACEPARENT, packed, state, pipeline)
        return run

    async def begin(self, *values: float, pipeline: str = "chain") -> UUID:
        """Begin a run with these values as its input."""
        run = await self.add(*values, pipeline=pipeline)
        self.world.wake_ups.announce(await self.progress.carry_due(run))
        return run

    async def carry_due(self) -> None:
        """Carry on the runs that were left to the sweep, as it does."""
        for run in await find_due_runs(self.database, 100):
            self.world.wake_ups.announce(await self.progress.carry_due(run))

    async def end_overdue(self) -> None:
        """End the runs whose deadline has passed, as a sweep does."""
        for run in await find_overdue_runs(self.database, 100):
            self.world.wake_ups.announce(await self.progress.end_overdue(run))

    async def steps(self, run: UUID) -> list[tuple[str, int, str]]:
        """Return the jobs of steps: step, element and status."""
        return [(each["step"], each["step_index"], each["status"]) for each in await self.database.fetch(STEPS, run)]

    async def state(self, run: UUID) -> Mapping[str, Any]:
        (record,) = await self.database.fetch("SELECT * FROM jobs WHERE id = $1", run)
        return dict(record)

    async def infer(self, run: UUID, step: str) -> int:
        """Run all waiting jobs of a step. Return how many there were."""
        found = [each for each in await self.database.fetch(STEPS, run) if each["step"] == step]
        waiting = [each["id"] for each in found if each["status"] == "queued"]
        for job_id in waiting:
            await self.succeed(await claim(self.database, job_id))
        return len(waiting)

    async def succeed(self, job: JobToRun) -> None:
        """End a claimed job as its model does."""
        given = {tensor.name: tensor for tensor in tensors.unpack(job.tensors)}
        assert isinstance(given["x"].data, bytes)
        values = memoryview(given["x"].data).cast("f").tolist()
        made = {"a": [v + 1 for v in values], "b": [v * 2 for v in values], "c": [sum(values)]}[job.model]
        result = InferenceResult("1", b"[]", tensors=pack("y", made))
        await self.world.recorder.succeed(job, result, job.time_after(0.5), 1.0, TRACEPARENT)

    async def fail(self, job: JobToRun) -> None:
        """End a claimed job because its input is bad."""
        outcome = retry_policy.Attempted(Failure("invalid_input", "it is bad", retryable=False))
        await self.world.recorder.record_failure(job, outcome, job.time_after(0.5), TRACEPARENT)
