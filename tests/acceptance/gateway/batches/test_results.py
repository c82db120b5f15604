"""The results of a batch are lines in the order submitted, and continue at any line. Calls wait for the last job."""

import time
from typing import Any
from uuid import uuid4

import msgspec

from tests.support.api.api_client import Api, Job, read
from tests.support.api.api_shapes import Batch
from tests.support.api.batch_results import Problem, read_results
from tests.support.api.batches import echo, get_batch, submit_batch
from tests.support.api.model_inputs import fault, tokens, work
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}


async def wait(api: Api, batch_id: str, seconds: float = 60) -> Batch:
    return read(await api.http.get(f"/v1/batches/{batch_id}", params={"wait": seconds}, timeout=90), 200, Batch)


async def test_results_have_a_line_for_each_item_in_the_order_submitted(api: Api, other_tenant: Api) -> None:
    items: list[Any] = [echo(0, custom_id="first"), 1, echo(2) | {"inptus": {}, "custom_id": "typo"}, b"", echo(4)]
    items[3] = {"model": "faulty", "inputs": fault("invalid"), "custom_id": "fails", "metadata": {"of": "me"}}
    batch = await submit_batch(api, items)
    assert [(error.index, error.custom_id) for error in batch.errors] == [(1, None), (2, "typo")]
    assert (await wait(api, batch.id)).status == "completed"
    results = await read_results(api, batch.id)
    assert [(each.index, each.custom_id) for each in results] == [
        (0, "first"),
        (1, None),
        (2, "typo"),
        (3, "fails"),
        (4, None),
    ]
    for error in batch.errors:
        assert results[error.index].error == Problem(error.type, error.detail, error.errors)
        assert results[error.index].job is None
    for result in (results[0], results[3], results[4]):
        assert result.error is None
        assert result.job is not None
        assert result.job == msgspec.structs.replace(await api.get(result.job.id), webhook_status=None)
    assert [each.job and each.job.status for each in results] == ["succeeded", None, None, "failed", "succeeded"]
    for start in range(7):
        assert await read_results(api, batch.id, from_=start) == results[start:]
    assert (await other_tenant.http.get(f"/v1/batches/{batch.id}/results")).status_code == 404
    assert batch.urls.results.endswith(f"/v1/batches/{batch.id}/results")


async def test_results_wait_for_the_last_job_unless_they_may_be_partial(api: Api) -> None:
    submitted = await submit_batch(api, [echo(0), {"model": "work", "inputs": work(1), "run_at": in_an_hour()}])

    async def has_run() -> bool:
        return (await get_batch(api, submitted.id)).counts["succeeded"] == 1

    await eventually(has_run, "the first job has succeeded")
    early = await wait(api, submitted.id, 1)
    assert (early.status, early.counts["queued"]) == ("processing", 1)
    response = await api.http.get(f"/v1/batches/{submitted.id}/results")
    assert (response.status_code, response.json()["type"]) == (409, "urn:charonia:problem:not_ready")
    partial = await read_results(api, submitted.id, partial="true")
    assert [each.job and each.job.status for each in partial] == ["succeeded", "queued"]
    assert partial[1].job is not None
    read(await api.http.post(f"/v1/jobs/{partial[1].job.id}/cancel"), 202, Job)
    assert (await wait(api, submitted.id)).status == "completed"
    assert [each.job and each.job.status for each in await read_results(api, submitted.id)] == ["succeeded", "canceled"]


def in_an_hour() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))


async def test_a_wait_ends_soon_after_the_last_job(api: Api) -> None:
    batch = await submit_batch(api, [{"model": "tokens", "inputs": tokens(["a", "b"], 500)}])
    began = time.monotonic()
    ended = await wait(api, batch.id)
    assert ended.status == "completed"
    assert time.monotonic() - began < 30  # not after all of the wait
    assert (await wait(api, batch.id)) == ended
    assert (await api.http.get(f"/v1/batches/{batch.id}", params={"wait": 61})).status_code == 422


async def test_a_wait_includes_jobs_that_were_replayed(api: Api) -> None:
    flaky = {"model": "faulty", "inputs": fault("fail_times", 1) | {"key": [str(uuid4())]}, "retry": ONCE}
    batch = await submit_batch(api, [flaky, echo(1)])
    assert (await wait(api, batch.id)).counts["failed"] == 1
    (failed, _) = await read_results(api, batch.id)
    assert failed.job is not None
    await api.http.post("/v1/dead-letters/replay", json={"ids": [failed.job.id]})
    assert (await wait(api, batch.id)).counts["succeeded"] == 2
    assert [each.job and each.job.status for each in await read_results(api, batch.id)] == ["succeeded", "succeeded"]
