"""Pipelines from outside: stored, run, and read like a job."""

import asyncio
import json
from typing import Any

from tests.support.api.api_client import Api
from tests.support.api.model_inputs import LINES, picture
from tests.support.receivers.webhook_receiver import Receiver

TWICE = {
    "inputs": {"x": {"datatype": "FP32", "shape": [-1, -1]}},
    "steps": {
        "first": {"model": "echo", "inputs": {"x": "$inputs.x"}},
        "rows": {"model": "echo", "inputs": {"x": "$first.y"}, "for_each": "x"},
        "last": {"model": "echo", "inputs": {"x": "$rows.y"}},
    },
    "outputs": {"by_row": "$rows.y", "whole": "$last.y"},
}


async def put(api: Api, name: str, definition: object) -> None:
    response = await api.http.put(f"/v1/pipelines/{name}", json=definition)
    assert response.status_code in (200, 201), response.text


async def test_a_run_goes_through_models_and_ends_in_one_webhook(api: Api, receiver: Receiver) -> None:
    await put(api, "twice", TWICE)
    inbox = receiver.inbox()
    async with api.subscribed(receiver.inbox().url, events=["*"]) as subscription:
        submitted = await api.submit("twice", {"x": [[1.0, 2.0], [3.0, 4.0]]}, webhook={"url": inbox.url})
        assert (submitted.kind, submitted.model, submitted.version) == ("pipeline", "twice", "1")
        (delivery,) = await inbox.wait()
        event = delivery.verify(await api.callback_secret())
        assert (event.type, event.data.id) == ("job.succeeded", submitted.id)
        assert event.data.output("by_row") == [4.0, 8.0, 12.0, 16.0]
        assert event.data.output("whole") == [8.0, 16.0, 24.0, 32.0]
        job = await api.wait_for_webhooks(submitted.id)
        deliveries = await api.list_all_deliveries(f"/v1/webhooks/{subscription.id}")
    assert {each.job_id for each in deliveries} == {submitted.id}  # nobody is told of the jobs of steps
    assert job.steps is not None
    assert {name: (step.status, step.total, step.done) for name, step in job.steps.items()} == {
        "first": ("succeeded", 1, 1),
        "rows": ("succeeded", 2, 2),
        "last": ("succeeded", 1, 1),
    }
    rows = await api.list_all_jobs(parent=submitted.id, step="rows")
    assert [(row.parent, row.step, row.model, row.status) for row in rows] == [
        (submitted.id, "rows", "echo", "succeeded")
    ] * 2
    listed = await api.list_all_jobs(model="echo", limit=100)
    assert not {row.id for row in rows} & {each.id for each in listed}
    step = job.steps["first"].job
    assert step is not None
    assert (await api.get(step)).trace_id == job.trace_id


async def test_outputs_of_a_model_that_reads_an_image_become_elements(api: Api) -> None:
    definition: dict[str, Any] = {
        "inputs": {"image": {"datatype": "BYTES", "shape": [1]}},
        "steps": {
            "read": {"model": "ocr", "inputs": {"image": "$inputs.image"}},
            "digest": {"model": "excerpt", "inputs": {"audio": "$inputs.image"}},
        },
        "outputs": {"text": "$read.text", "size": "$digest.size"},
    }
    refused = await api.http.put("/v1/pipelines/both", json=definition)
    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/steps/read/inputs/image"]
    del definition["steps"]["digest"], definition["outputs"]["size"]
    await put(api, "both", definition)
    run = await api.run("both", picture())
    assert run.output("text") == LINES


async def test_a_run_that_succeeded_cannot_be_retried_and_its_steps_not_canceled(api: Api) -> None:
    await put(api, "twice", TWICE)
    run = await api.run("twice", {"x": [[1.0]]})
    assert run.steps is not None
    for call in (f"{run.id}/retry", f"{run.steps['first'].job}/cancel", f"{run.steps['first'].job}/retry"):
        refused = await api.http.post(f"/v1/jobs/{call}")
        assert refused.status_code == 409, call
    assert run.id in refused.json()["detail"]


async def test_a_batch_may_have_runs(api: Api) -> None:
    await put(api, "twice", TWICE)
    lines = [{"model": "twice", "inputs": {"x": [[float(number)]]}} for number in range(5)]
    lines.append({"model": "echo", "inputs": {"x": [[7.0]]}})
    body = "\n".join(json.dumps(line) for line in lines)
    response = await api.http.post("/v1/batches", content=body, headers={"content-type": "application/jsonl"})
    assert response.status_code == 202, response.text
    jobs = await api.list_all_jobs(batch=response.json()["id"])
    ended = await asyncio.gather(*(api.wait(job.id) for job in jobs))
    assert {job.status for job in ended} == {"succeeded"}
    assert {job.output("whole")[0] for job in ended if job.kind} == {0.0, 8.0, 16.0, 24.0, 32.0}
