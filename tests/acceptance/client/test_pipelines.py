"""A pipeline is stored, run, followed, looked at and deleted through the client."""

import uuid

import charonia
import pytest
from charonia import AsyncCharonia, Charonia

from deploy.local.settings import ROOT
from tests.support.api.model_inputs import LINES
from tests.support.api.page_pipeline import COUNTS, DEFINITION, TOTAL

IMAGE = ROOT / "deploy" / "local" / "demo.png"


@pytest.fixture
def name() -> str:
    return f"page-{uuid.uuid4().hex[:8]}"


def test_a_pipeline_is_stored_run_and_deleted(client: Charonia, name: str) -> None:
    checked = client.pipelines.check(name, DEFINITION)
    assert [each.name for each in checked.output_tensors] == ["text", "counts", "total"]
    stored = client.pipelines.put(name, DEFINITION)
    assert (client.pipelines.put(name, DEFINITION).version, stored.version) == ("1", "1")
    assert client.models.get(name).kind == "pipeline"
    result = client.run(name, image=IMAGE, timeout=60)
    assert (result["text"], result["counts"], result["total"]) == (LINES, COUNTS, TOTAL)
    changed = client.pipelines.put(name, DEFINITION | {"outputs": {"total": "$page.count"}})
    assert (changed.version, client.pipelines.get(name).versions) == ("2", ["2", "1"])
    assert client.pipelines.get(name, version="1").definition["outputs"] == DEFINITION["outputs"]
    assert [each.version for each in client.pipelines.list() if each.name == name] == ["2"]
    assert list(client.run(name, image=IMAGE, timeout=60)) == ["total"]
    client.pipelines.delete(name)
    with pytest.raises(charonia.NotFound):
        client.pipelines.get(name)


def test_a_run_shows_its_steps(client: Charonia, name: str) -> None:
    client.pipelines.put(name, DEFINITION)
    run = client.submit(name, image=IMAGE)
    events = [each for each in run.events(timeout=60) if isinstance(each, charonia.StepEvent)]
    assert [(each.data.step, each.data.total) for each in events if each.type == "step.started"] == [
        ("read", 1),
        ("lines", len(LINES)),
        ("page", 1),
    ]
    run.refresh()
    assert (run.data.kind, run.data.parent) == ("pipeline", None)
    assert {step: (each.status, each.done, each.total) for step, each in run.steps.items()} == {
        "read": ("succeeded", 1, 1),
        "lines": ("succeeded", len(LINES), len(LINES)),
        "page": ("succeeded", 1, 1),
    }
    jobs = list(client.jobs.list(parent=run.id, step="lines"))
    assert [(each.parent, each.step, each.model) for each in jobs] == [(run.id, "lines", "words")] * len(LINES)
    page = client.jobs.get(run.steps["page"].job or "")
    assert (page.data.step, page.steps, len(list(client.jobs.list(parent=run.id)))) == ("page", {}, len(LINES) + 2)
    client.pipelines.delete(name)


def test_every_fault_of_a_definition_is_reported(client: Charonia, name: str) -> None:
    wrong = DEFINITION | {"outputs": {"text": "$read.txet", "verdict": "$judge.verdict"}}
    for call in (client.pipelines.put, client.pipelines.check):
        with pytest.raises(charonia.InvalidRequest) as refused:
            call(name, wrong)
        assert [each.pointer for each in refused.value.errors] == ["/outputs/text", "/outputs/verdict"]
    with pytest.raises(charonia.Conflict, match="Triton has a model 'echo'"):
        client.pipelines.put("echo", DEFINITION)


async def test_the_asynchronous_client_has_pipelines(async_client: AsyncCharonia, name: str) -> None:
    await async_client.pipelines.put(name, DEFINITION)
    assert (await async_client.run(name, image=IMAGE, timeout=60))["total"] == TOTAL
    await async_client.pipelines.delete(name)
    assert name not in [each.name async for each in async_client.pipelines.list()]


def test_a_failed_run_names_its_step_and_goes_on(client: Charonia, name: str) -> None:
    step = {"model": "faulty", "inputs": {"mode": "$inputs.mode", "value": "$inputs.value", "key": "$inputs.key"}}
    inputs = {"mode": "BYTES", "value": "INT32", "key": "BYTES"}
    definition = {
        "inputs": {each: {"datatype": datatype, "shape": [1]} for each, datatype in inputs.items()},
        "steps": {"only": step | {"retry": {"max_attempts": 1}}},
        "outputs": {"result": "$only.result"},
    }
    client.pipelines.put(name, definition)
    run = client.submit(name, mode="fail_times", value=1, key=name)
    with pytest.raises(charonia.JobFailed, match="step 'only' failed") as failed:
        run.result(timeout=60)
    assert failed.value.code == "step_failed"
    assert run.steps["only"].status == "failed"
    run.retry()
    assert run.result(timeout=60)["result"] == ["ok"]
    client.pipelines.delete(name)


def test_items_are_mapped_through_a_pipeline(client: Charonia, name: str) -> None:
    client.pipelines.put(name, DEFINITION)
    found = list(client.map(name, [IMAGE.read_bytes(), b"no image"]))
    assert sorted((done.index, done.error is None) for done in found) == [(0, True), (1, False)]
    client.pipelines.delete(name)
