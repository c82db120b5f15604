"""Runs are added with their first jobs, or not at all."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from common import ids, tensors
from common.job_states import Status
from common.jobs.new_job import JobFile
from common.jobs.run import find_due_runs
from common.pipelines.definition import PipelineDefinition
from common.tensors import Datatype, FileContent, Tensor
from services.gateway.batches.store import BatchStore, NewBatch, NewItem
from services.gateway.http.problems import Problem
from services.gateway.jobs.submit import count_submitted
from services.gateway.pipelines.store import NewPipeline, PipelineWriter
from tests.integration.files import add_file
from tests.integration.gateway.jobs.runs.client import INPUTS, VALUES, Client
from tests.integration.jobs import TRACEPARENT
from tests.integration.runs import CHAIN, OUTPUTS
from tests.integration.submitters import new_body_lease
from tests.support.telemetry.process_metrics import count


async def test_a_run_begins_with_its_submit(client: Client) -> None:
    submitted = await client.submit(priority="high", metadata={"a": 1})
    run = submitted.row.id
    assert (submitted.row.status, submitted.row.version, submitted.row.is_run) == (Status.QUEUED, "1", True)
    assert await client.runs.steps(run) == [("first", 0, "queued")]
    (job,) = await client.list_steps(run)
    assert (await client.find(job)).priority == "high"
    row = await client.find(run)
    assert (row.status, row.attempt, row.max_attempts, row.metadata) == (Status.PROCESSING, 1, 1, b'{"a":1}')
    await client.end(run)
    found = await client.store.find_job(run, client.tenant)
    assert found is not None
    assert found.row.status is Status.SUCCEEDED
    assert {each["name"]: each["data"] for each in msgspec.json.decode(found.outputs or b"")} == {
        "result": [18.0],
        "all": [4.0, 6.0, 8.0],
    }


async def test_a_run_is_not_counted_by_the_name_of_its_pipeline(client: Client) -> None:
    before = count("charonia_jobs_submitted_total", model="/pipelines", priority="low") or 0.0
    count_submitted((await client.submit(priority="low")).row)
    assert count("charonia_jobs_submitted_total", model="/pipelines", priority="low") == before + 1.0
    assert count("charonia_jobs_submitted_total", model="chain", priority="low") is None


async def test_a_key_is_one_run(client: Client) -> None:
    both = await asyncio.gather(client.submit("key"), client.submit("key"))
    again = await client.submit("key")
    assert len({each.row.id for each in both}) == 1
    assert sorted(each.replayed for each in both) == [False, True]
    first = next(each for each in both if not each.replayed)
    assert msgspec.structs.replace(again.row, run_state=None) == msgspec.structs.replace(first.row, run_state=None)
    assert again.row.is_run
    assert len(await client.list_jobs()) == 1


async def test_a_run_whose_file_is_gone_is_refused(client: Client) -> None:
    context = await client.submitter.make_context(client.key, TRACEPARENT)
    run = await client.submitter.parse(msgspec.json.encode({"model": "chain", "inputs": VALUES}), context)
    gone = msgspec.structs.replace(run, files=[JobFile(ids.new(), "/inputs/x/file")])
    with pytest.raises(Problem, match="/inputs/x/file: file not found"):
        await client.submitter.submit_job(gone, new_body_lease())
    assert await client.list_jobs() == []


@pytest.mark.parametrize("step", ["first", "each"])
async def test_a_run_that_divides_a_file_waits_for_the_sweep(client: Client, step: str) -> None:
    """The gateway never waits for the object store. It hands over whole files at once."""
    steps = {step: {"model": "a", "inputs": {"x": "$inputs.x"}} | ({"for_each": "x"} if step == "each" else {})}
    definition = {"inputs": CHAIN["inputs"], "steps": steps, "outputs": {"result": f"${step}.y"}}
    new = NewPipeline("rows", msgspec.convert(definition, PipelineDefinition), INPUTS, {step: OUTPUTS[step]})
    await PipelineWriter(client.database).add(client.key, new)
    context = await client.submitter.make_context(client.key, TRACEPARENT)
    run = await client.submitter.parse(msgspec.json.encode({"model": "rows", "inputs": VALUES}), context)
    file = await add_file(client.database, client.tenant)
    packed = tensors.pack([Tensor("x", Datatype.FP32, [3], FileContent(file, 0, 12))])
    in_file = msgspec.structs.replace(run, id=ids.new(), tensors=packed, files=[JobFile(file, "/inputs/x/file")])
    for each, waits in ((run, False), (in_file, step == "each")):
        await client.submitter.submit_job(each, new_body_lease())
        assert await find_due_runs(client.database, 10) == ([each.id] if waits else [])
        assert bool(await client.runs.steps(each.id)) is not waits
        await client.world.canceler.cancel(client.tenant, each.id)


async def test_runs_of_a_batch_wait_for_a_sweeper(client: Client) -> None:
    batch_id = ids.new()
    context = await client.submitter.make_context(client.key, TRACEPARENT)
    body = msgspec.json.encode({"model": "chain", "inputs": VALUES})
    parsed = [await client.submitter.parse(body, context) for _ in range(2)]
    runs: Sequence[Any] = [msgspec.structs.replace(run, batch_id=batch_id) for run in parsed]
    store, items = BatchStore(client.database), [NewItem(number, run.id) for number, run in enumerate(runs)]
    assert await store.add(NewBatch(batch_id, client.tenant, 2, 2, TRACEPARENT, items=items), runs) is not None
    assert sorted(await find_due_runs(client.database, 10)) == sorted(run.id for run in runs)
    assert await store.count_jobs(batch_id) == {"queued": 2}
    assert set(await client.list_jobs(batch_id=batch_id)) == {run.id for run in runs}
    for run in runs:
        await client.runs.progress.carry_due(run.id)
        assert await store.find_open_job(batch_id) is not None
        await client.end(run.id)
    assert await store.find_open_job(batch_id) is None
    assert await store.count_jobs(batch_id) == {"succeeded": 2}
