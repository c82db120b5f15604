"""A run goes on in the transaction that ends a job of one of its steps."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
import pytest

from common import ids, tensors
from common.job_states import Failure
from common.pipelines import advance
from common.pipelines.run_state import StepStatus, decode
from common.postgres.database import Database
from common.runs import step_inputs
from common.tensors import Datatype, FileContent
from services.dispatcher.failures import retry_policy
from services.dispatcher.triton.responses import InferenceResult
from tests.integration.jobs import TRACEPARENT, claim
from tests.integration.runs import STEPS, Runs, pack
from tests.integration.world import World


@pytest.fixture
async def runs(database: Database, tenant: UUID) -> Runs:
    world = World(database, tenant)
    await world.begin()
    return Runs(world)


async def test_a_run_goes_through_its_steps(runs: Runs) -> None:
    run = await runs.begin(1, 2, 3)
    assert await runs.steps(run) == [("first", 0, "queued")]
    await runs.infer(run, "first")
    assert sorted(await runs.steps(run))[:3] == [("each", index, "queued") for index in range(3)]
    await runs.infer(run, "each")
    assert await runs.infer(run, "last") == 1
    row = await runs.state(run)
    assert row["status"] == "succeeded"
    outputs = {each["name"]: each["data"] for each in msgspec.json.decode(row["outputs"])}
    assert outputs == {"result": [18.0], "all": [4.0, 6.0, 8.0]}
    assert {step.status for step in decode(row["run_state"]).values()} == {StepStatus.SUCCEEDED}
    assert row["ended_xid"] is not None
    assert row["inference_ms"] == 5.0  # five jobs of one each
    assert await runs.database.fetch("SELECT FROM events WHERE job_id = $1 AND type = 'job.succeeded'", run)
    assert not await runs.database.fetch("SELECT FROM events WHERE job_id <> $1", run)


async def test_a_step_without_elements_makes_no_job(runs: Runs) -> None:
    run = await runs.begin()
    await runs.infer(run, "first")
    assert await runs.infer(run, "last") == 1
    outputs = {each["name"]: each["data"] for each in msgspec.json.decode((await runs.state(run))["outputs"])}
    assert outputs == {"result": [0.0], "all": []}


async def test_a_failed_step_fails_the_run_and_cancels_the_rest(runs: Runs) -> None:
    run = await runs.begin(1, 2, 3)
    await runs.infer(run, "first")
    (first, second, third) = [each["id"] for each in await runs.database.fetch(STEPS, run) if each["step"] == "each"]
    running = await claim(runs.database, second)
    failing = await claim(runs.database, first)
    outcome = retry_policy.Attempted(Failure("invalid_input", "it is bad", retryable=False))
    await runs.world.recorder.record_failure(failing, outcome, failing.time_after(0.5), TRACEPARENT)
    row = await runs.state(run)
    assert (row["status"], row["error_code"]) == ("failed", "step_failed")
    assert row["error_message"] == "step 'each' failed: it is bad"
    assert [status for step, _, status in sorted(await runs.steps(run)) if step == "each"] == [
        "failed",
        "canceling",
        "canceled",
    ]
    await runs.world.recorder.cancel(running, running.time_after(0.5), TRACEPARENT)
    assert {status for _, _, status in await runs.steps(run)} == {"succeeded", "failed", "canceled"}
    assert (await runs.state(run))["status"] == "failed"
    assert third


async def test_many_elements_get_their_jobs_a_window_at_a_time(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "WINDOW", 10)
    count = 25
    run = await runs.begin(*range(count))
    await runs.infer(run, "first")
    made = 0
    while now := await runs.infer(run, "each"):
        assert now <= 10
        made += now
        each = decode((await runs.state(run))["run_state"])["each"]
        assert each.place.element == each.made  # so the next ones need no look at those before
    assert made == count
    await runs.infer(run, "last")
    outputs = {each["name"]: each["data"] for each in msgspec.json.decode((await runs.state(run))["outputs"])}
    assert outputs["all"] == [2.0 * (each + 1) for each in range(count)]


async def test_a_run_fails_whose_steps_have_lost_their_outputs(runs: Runs) -> None:
    run = await runs.begin(1, 2)
    await runs.infer(run, "first")
    await runs.infer(run, "each")
    await runs.database.fetch("UPDATE jobs SET raw_outputs = NULL WHERE parent = $1 AND step = 'each'", run)
    await runs.infer(run, "last")
    row = await runs.state(run)
    assert (row["status"], row["error_code"]) == ("failed", "step_failed")
    assert row["error_message"] == "outputs of step 'each' are gone; submit a new job"


async def test_outputs_that_are_too_large_to_be_joined_fail_the_run(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_inputs, "MAX_JOINED", 7)
    run = await runs.begin(1, 2)
    await runs.infer(run, "first")
    await runs.infer(run, "each")
    row = await runs.state(run)
    assert (row["status"], row["error_code"]) == ("failed", "step_failed")
    text = "step 'last' cannot start: the outputs 'y' of step 'each' have over 7 bytes together"
    assert row["error_message"] == text


async def test_a_run_that_takes_too_long_fails(runs: Runs) -> None:
    run = await runs.begin(1)
    await runs.world.pass_time(61)
    runs.world.wake_ups.announce(await runs.progress.end_overdue(run))
    row = await runs.state(run)
    assert (row["status"], row["error_code"]) == ("failed", "timeout")
    assert [status for _, _, status in await runs.steps(run)] == ["canceled"]


async def begin_with(runs: Runs, *outputs: tensors.Tensor) -> UUID:
    """Begin a run whose first step makes these outputs."""
    run = await runs.begin(1)
    (job_id,) = [each["id"] for each in await runs.database.fetch(STEPS, run)]
    await end_with(runs, job_id, outputs)
    return run


async def end_with(runs: Runs, job_id: UUID, outputs: Sequence[tensors.Tensor]) -> None:
    job = await claim(runs.database, job_id)
    result = InferenceResult("1", b"[]", tensors=tensors.pack([*outputs]))
    await runs.world.recorder.succeed(job, result, job.time_after(0.5), 1.0, TRACEPARENT)


async def test_outputs_that_nothing_uses_are_not_looked_at(runs: Runs) -> None:
    """A fallback need not have them, and those in files cannot be joined."""
    run = await runs.begin(1, 2)
    await runs.infer(run, "first")
    used = tensors.unpack(pack("y", [7.0]))
    for unused in ([], [in_file("unused")]):
        job_id = next(each["id"] for each in await runs.database.fetch(STEPS, run) if each["status"] == "queued")
        await end_with(runs, job_id, [*used, *unused])
    await runs.infer(run, "last")
    assert (await runs.state(run))["status"] == "succeeded"


async def test_a_run_fails_if_a_model_no_longer_makes_an_output(runs: Runs) -> None:
    row = await runs.state(await begin_with(runs, *tensors.unpack(pack("other", [1.0]))))
    assert (row["status"], row["error_code"]) == ("failed", "step_failed")
    assert row["error_message"] == (
        "step 'each' cannot start: step 'first' made no output 'y': its model has changed; "
        "check the pipeline, and store it again"
    )
    assert {name: step.status for name, step in decode(row["run_state"]).items()} == {
        "first": StepStatus.SUCCEEDED,
        "each": StepStatus.FAILED,
        "last": StepStatus.CANCELED,
    }


def in_file(name: str) -> tensors.Tensor:
    return tensors.Tensor(name, Datatype.FP32, [1], FileContent(ids.new(), 0, 4))
