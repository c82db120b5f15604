"""A model or a server that dies or hangs fails at most the job that caused it. The others run when it is back."""

import asyncio
import itertools
from collections.abc import Sequence

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import fault, work
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.telemetry.service_logs import count_events, wait_for_event
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}  # a used attempt would fail the job
FROZEN_SECONDS = 20.0
MAX_SLOTS = 4  # of the model: two for its instance, and twice as many while it answers quickly
MAX_PROBES = 3  # in 12 s: each takes 3 s, after 0.5, 1 and 2 s
MAX_DELAY_SECONDS = 12.0  # two probes, one for each tenant, with up to 5 s before each


async def test_model_that_dies_fails_only_the_job_that_kills_it(supervised: Stack, api: Api) -> None:
    """The dispatcher reloads it, which Triton lets only those do who have its key. Other models keep working."""
    reloads = count_events(supervised.dispatchers[0], "model.reloaded")
    killer = await api.submit("faulty", fault("kill"), retry=ONCE)
    others = [await api.submit("faulty", fault("ok"), retry=ONCE) for _ in range(30)]
    assert (await api.run("echo", {"x": [[1.0]]}, retry=ONCE)).status == "succeeded"
    await check_succeeded(api, others)
    failed = await api.wait(killer.id, within=60)
    assert (failed.status, failed.attempt, failed.error and failed.error.code) == ("failed", 1, "model_crashed")
    attempts = [(each.status, each.error_code) for each in await api.list_attempts(killer.id)]
    assert attempts == [("returned", "model_crashed")] * 3 + [("failed", "model_crashed")]
    await wait_for_event(supervised.dispatchers[0], "model.reloaded", reloads)
    assert (await api.run("faulty", fault("ok"), retry=ONCE)).status == "succeeded"  # although nobody restarted it


async def test_jobs_of_a_frozen_triton_run_again_and_get_their_own_answers(supervised: Stack, api: Api) -> None:
    submitted = [await api.submit("work", work(300 + number), timeout=10, retry=ONCE) for number in range(30)]
    await wait_for_metric(supervised.triton.metrics_url, "work_executions_total", 1, request_id=submitted[0].id)
    clock = asyncio.get_running_loop().time
    await asyncio.to_thread(supervised.triton.process.freeze)
    try:
        thaw_at = clock() + FROZEN_SECONDS
        submitted += [await api.submit("work", work(330 + number), timeout=10, retry=ONCE) for number in range(30)]

        async def poll() -> bool:
            return clock() >= thaw_at

        await eventually(poll, "Triton has been frozen for long", FROZEN_SECONDS + 5)
    finally:
        await asyncio.to_thread(supervised.triton.process.thaw)
    await check_succeeded(api, submitted)
    ended = [await api.get(job.id) for job in submitted]
    assert [job.output("slept") for job in ended] == [[300 + number] for number in range(60)]


async def test_model_that_hangs_stops_its_jobs_and_uses_up_no_attempt_of_the_others(
    supervised: Stack, api: Api
) -> None:
    await api.run("faulty", fault("ok"))
    hanging = await api.submit("faulty", fault("hang", 12_000), timeout=1, retry=ONCE)
    await api.wait(hanging.id, "processing", "failed")
    # The timeout is longer than a busy machine may stand still once the model answers again.
    others = [await api.submit("faulty", fault("ok"), timeout=3, retry=ONCE) for _ in range(20)]
    await check_succeeded(api, others)
    assert (await api.wait(hanging.id)).status == "failed"
    attempts = [each for job in others for each in await api.list_attempts(job.id)]
    assert [each.status for each in attempts].count("succeeded") == 20
    answered_at = min(each.finished_at for each in attempts if each.status == "succeeded")
    tried = [each for each in attempts if each.status == "returned" and each.started_at < answered_at]
    timed_out = [*await api.list_attempts(hanging.id), *tried]
    opened_at = sorted(each.finished_at for each in timed_out)[1]  # by the second timeout in a row
    probes = sorted((each for each in tried if each.started_at > opened_at), key=lambda each: each.started_at)
    assert len(probes) <= MAX_PROBES, probes
    assert all(before.finished_at <= after.started_at for before, after in itertools.pairwise(probes)), probes
    assert 1 <= len(tried) - len(probes) <= MAX_SLOTS, tried


async def test_timeouts_of_one_tenant_delay_another_by_seconds_only(api: Api, other_tenant: Api) -> None:
    hasty = [await api.submit("faulty", fault("hang", 300), timeout=0.1, retry=ONCE) for _ in range(30)]
    await asyncio.gather(*(api.wait(job.id, "failed", "queued") for job in hasty[:2]))
    job = await other_tenant.wait((await other_tenant.submit("faulty", fault("ok"), retry=ONCE)).id)
    assert (job.status, job.attempt) == ("succeeded", 1)
    assert job.finished_at is not None
    assert (job.finished_at - job.created_at).total_seconds() < MAX_DELAY_SECONDS
    for each in hasty:
        await api.http.post(f"/v1/jobs/{each.id}/cancel")
    await api.run("faulty", fault("ok"))  # closes the breaker for the other tests


async def check_succeeded(api: Api, jobs: Sequence[Job]) -> None:
    ended = [await api.wait(job.id, within=60) for job in jobs]
    assert [(job.status, job.attempt) for job in ended] == [("succeeded", 1)] * len(jobs)
