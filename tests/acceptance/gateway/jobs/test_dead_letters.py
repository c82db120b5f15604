"""Failed jobs are kept as dead letters. Clients list them, inspect them and run them again."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import httpx
import msgspec
import pytest

from tests.support.api.api_client import Api, Job, Jobs, read
from tests.support.api.api_shapes import Strict
from tests.support.api.model_inputs import LINES, fault, picture, work

ONCE = {"max_attempts": 1}
JOB = "job_01m7ysshxnfbevq05b7h55g94z"


class Skipped(Strict, frozen=True):
    id: str
    code: str
    detail: str


class Replayed(Strict, frozen=True):
    replayed: list[str]
    skipped: list[Skipped]
    remaining: bool


async def replay(api: Api, **request: object) -> Replayed:
    return read(await api.http.post("/v1/dead-letters/replay", json=request), 202, Replayed)


async def list_dead_letters(api: Api, **query: str | int) -> Jobs:
    return read(await api.http.get("/v1/dead-letters", params=query), 200, Jobs)


def flaky_inputs(failures: int) -> dict[str, object]:
    """Return inputs that fail this many times and then succeed."""
    return fault("fail_times", failures) | {"key": [str(uuid4())]}


async def test_failed_job_is_a_dead_letter_until_it_is_replayed(api: Api, other_tenant: Api) -> None:
    failed = await api.run("faulty", flaky_inputs(1), retry=ONCE)
    assert failed.status == "failed"
    (found,) = [job for job in (await list_dead_letters(api)).items if job.id == failed.id]
    assert (found.status, found.error, found.outputs) == ("failed", failed.error, None)
    assert failed.id not in [job.id for job in (await list_dead_letters(other_tenant)).items]
    (skipped,) = (await replay(other_tenant, ids=[failed.id])).skipped
    assert (skipped.id, skipped.code) == (failed.id, "not_found")

    assert await replay(api, ids=[failed.id]) == Replayed([failed.id], [], False)
    again = await api.wait(failed.id)
    assert (again.status, again.attempt, again.error) == ("succeeded", 1, None)
    assert failed.id not in [job.id for job in (await list_dead_letters(api)).items]
    skipped = Skipped(failed.id, "not_failed", "the job is succeeded; only a failed job is a dead letter")
    assert await replay(api, ids=[failed.id]) == Replayed([], [skipped], False)


async def test_dead_letters_are_filtered_and_paged(api: Api) -> None:
    since = datetime.now(UTC)
    jobs = [await api.run("faulty", fault("invalid")) for _ in range(3)]
    filters = {"model": "faulty", "error": "invalid_input", "created_after": since.isoformat()}
    first = await list_dead_letters(api, **filters, limit=2)
    assert [job.id for job in first.items] == [jobs[2].id, jobs[1].id]
    assert first.next_cursor is not None
    second = await list_dead_letters(api, **filters, limit=2, cursor=first.next_cursor)
    assert ([job.id for job in second.items], second.next_cursor) == ([jobs[0].id], None)
    assert (await list_dead_letters(api, **filters | {"model": "echo"})).items == []
    assert (await list_dead_letters(api, **filters | {"error": "timeout"})).items == []
    assert (await list_dead_letters(api, created_before=since.isoformat(), error="nothing")).items == []


async def test_replay_by_filter_runs_matching_jobs_again(api: Api) -> None:
    since = datetime.now(UTC)
    jobs = [await api.run("faulty", flaky_inputs(1), retry=ONCE) for _ in range(2)]
    filters = {"model": "faulty", "error": "inference_failed", "created_after": since.isoformat()}
    assert await replay(api, filter=filters, limit=1) == Replayed([jobs[1].id], [], True)
    assert await replay(api, filter=filters) == Replayed([jobs[0].id], [], False)
    assert [(await api.wait(job.id)).status for job in jobs] == ["succeeded", "succeeded"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"target_model": "echo"}, ""),
        ({"model": "faulty"}, "/model"),
        ({"ids": [JOB], "filter": {}}, "/filter"),
        ({"ids": [JOB], "limit": 1}, "/limit"),
        ({"ids": []}, "/ids"),
    ],
)
async def test_a_replay_that_does_not_say_what_replays_nothing(api: Api, body: dict[str, object], pointer: str) -> None:
    failed = await api.run("faulty", flaky_inputs(1), retry=ONCE)
    response = await api.http.post("/v1/dead-letters/replay", json=body)
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, pointer)
    assert (await api.get(failed.id)).status == "failed"


async def test_an_id_that_is_given_twice_is_replayed_once(api: Api) -> None:
    failed = await api.run("faulty", flaky_inputs(1), retry=ONCE)
    assert await replay(api, ids=[failed.id, failed.id]) == Replayed([failed.id], [], False)
    assert (await api.wait(failed.id)).status == "succeeded"


async def test_replay_by_filter_runs_on_the_target_model(api: Api) -> None:
    since = datetime.now(UTC)
    failed = await api.run("work", work(1000), timeout=0.05, retry=ONCE)
    assert failed.status == "failed"
    filters = {"model": "work", "created_after": since.isoformat()}
    reason = "'echo' does not accept the job's inputs: it has no input 'ms'; it has 'x' (FP32 [-1, -1])"
    refused = Skipped(failed.id, "inputs_refused", reason)
    assert await replay(api, filter=filters, target_model="echo") == Replayed([], [refused], False)
    assert await replay(api, filter=filters, target_model="work_small") == Replayed([failed.id], [], False)
    assert (await api.wait(failed.id)).model == "work_small"


async def test_ended_job_runs_again_on_another_model(api: Api) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await api.submit("ocr", picture(), run_at=tomorrow)
    assert (await retry(api, job)).status_code == 409
    await api.http.post(f"/v1/jobs/{job.id}/cancel")
    refused = await retry(api, job, target_model="echo")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/target_model")
    unknown = await retry(api, job, target_model="nope")
    assert (unknown.status_code, unknown.json()["errors"][0]["pointer"]) == (422, "/target_model")

    assert read(await retry(api, job, target_model="ocr_stream"), 202, Job).status == "queued"
    ended = await api.wait(job.id)
    assert (ended.status, ended.model) == ("succeeded", "ocr_stream")
    assert [output.data for output in ended.outputs or [] if output.name == "text"] == [[line] for line in LINES]
    assert (await retry(api, job)).status_code == 409


async def retry(api: Api, job: Job, **request: str) -> httpx.Response:
    """Retry a job. Without fields, send no body at all."""
    content = msgspec.json.encode(request) if request else None
    return await api.http.post(f"/v1/jobs/{job.id}/retry", content=content)


async def test_attempts_of_a_job_are_listed(api: Api, other_tenant: Api) -> None:
    job = await api.run("faulty", flaky_inputs(2), retry={"max_attempts": 5, "initial_delay": 0.05})
    assert (job.status, job.attempt) == ("succeeded", 3)
    found = await api.list_attempts(job.id)
    assert [(each.attempt, each.status, each.error_code) for each in found] == [
        (1, "failed", "inference_failed"),
        (2, "failed", "inference_failed"),
        (3, "succeeded", None),
    ]
    assert all(each.worker and each.model == "faulty" for each in found)
    assert all(each.started_at <= each.finished_at for each in found)
    assert (await other_tenant.http.get(f"/v1/jobs/{job.id}/attempts")).status_code == 404


async def test_many_dead_letters_are_replayed_in_one_call(api: Api) -> None:
    jobs = await asyncio.gather(*(api.run("faulty", flaky_inputs(1), retry=ONCE) for _ in range(10)))
    done = await replay(api, ids=[job.id for job in jobs])
    assert (sorted(done.replayed), done.skipped) == (sorted(job.id for job in jobs), [])
    assert {(await api.wait(job.id)).status for job in jobs} == {"succeeded"}


async def test_filters_accept_any_time_and_refuse_nul(api: Api) -> None:
    ages = {"created_after": "0001-01-01T00:00:00+14:00", "created_before": "9999-12-31T23:59:59-12:00"}
    assert (await api.http.get("/v1/dead-letters", params=ages)).status_code == 200
    for name in ("model", "error"):
        response = await api.http.get("/v1/dead-letters", params={name: "\x00"})
        assert response.status_code == 422
        assert [error["pointer"] for error in response.json()["errors"]] == [name]
