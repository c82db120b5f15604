"""A queued job says why it does not run yet, also while its only dispatcher is frozen."""

import time
from functools import partial

from deploy.local.services import Service
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import fault, tokens
from tests.support.waiting import eventually

SHOWN_WITHIN = 10.0  # seconds after the dispatcher stops answering
LONG = tokens(["word"] * 120, delay_ms=500)  # a minute
SLOW = tokens(["word"], delay_ms=300)


async def wait_for(api: Api, job: str, code: str, detail: str = "") -> Job:
    """Return the job once it waits for this. A gateway looks at all models once a second."""

    async def poll() -> Job | None:
        found = await api.get(job)
        reason = found.waiting_for
        return found if reason is not None and reason.code == code and detail in reason.detail else None

    return await eventually(poll, f"{job} waits for {code}: {detail}")


async def is_ready(api: Api, expected: bool) -> bool:
    """Return whether the model is ready and has slots, or is not and has none, as expected."""
    model = (await api.http.get("/v1/models/echo")).raise_for_status().json()
    return (model["ready"], model["slots"] > 0) == (expected, expected)


async def test_a_job_without_a_slot_says_how_many_are_ahead(stack: Stack, api: Api) -> None:
    """The model has one instance and no batching, so it has two slots."""
    for _ in range(2):  # quick jobs of earlier tests may have left it more slots, and failures fewer
        await api.run("tokens", SLOW)
    running = [await api.submit("tokens", LONG) for _ in range(2)]
    for job in running:
        await api.wait(job.id, "processing")
    first, second = await api.submit("tokens", LONG), await api.submit("tokens", LONG)
    await wait_for(api, second.id, "slot", "2 of 2 slots busy, 1 ahead")
    model = (await api.http.get("/v1/models/tokens")).raise_for_status().json()
    assert (model["slots"], model["running"]) == (2, 2)
    (listed,) = [each for each in await api.list_all_jobs(status="queued", model="tokens") if each.id == first.id]
    assert listed.waiting_for is not None
    assert (listed.waiting_for.code, listed.waiting_for.detail) == ("slot", "2 of 2 slots busy")
    for job in (first, second, *running):
        await api.http.post(f"/v1/jobs/{job.id}/cancel")
    for job in (first, second, *running):
        assert (await api.wait(job.id)).waiting_for is None


async def test_a_failed_job_says_until_when_it_is_backed_off(api: Api) -> None:
    submitted = await api.submit("faulty", fault("raise"), retry={"max_attempts": 2, "initial_delay": 300})
    found = await wait_for(api, submitted.id, "backoff")
    assert found.waiting_for is not None
    assert found.waiting_for.detail == f"backing off until {found.run_at:%Y-%m-%dT%H:%M:%S}" + (
        f".{found.run_at.microsecond // 1000:03}Z after inference_failed"
    )
    await api.http.post(f"/v1/jobs/{submitted.id}/cancel")


async def test_a_submit_that_waited_in_vain_says_why(api: Api) -> None:
    """The answer is the job as it is then, not as it was accepted."""
    body = {"model": "faulty", "inputs": fault("raise"), "retry": {"max_attempts": 2, "initial_delay": 300}}
    answer = await api.http.post("/v1/jobs", json=body, headers={"Prefer": "wait=5"})
    job = read(answer, 202, Job)
    assert "preference-applied" not in answer.headers
    assert job.attempt == 1
    assert job.waiting_for is not None
    assert job.waiting_for.code == "backoff"
    await api.http.post(f"/v1/jobs/{job.id}/cancel")


async def test_the_details_of_a_model_have_recent_times(api: Api) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    recent = (await api.http.get("/v1/models/echo")).raise_for_status().json()["recent"]
    assert recent["jobs"] >= 1
    assert recent["inference_ms"]["p50"] <= recent["inference_ms"]["p95"]
    assert job.metrics.inference_ms is not None


async def test_the_time_on_triton_is_split_into_queue_and_computation(api: Api) -> None:
    """Of two jobs at a time on one instance without batching, one waits in Triton for the other."""
    slow = tokens(["word"] * 2, delay_ms=200)
    jobs = [await api.submit("tokens", slow) for _ in range(4)]
    ended = [await api.wait(job.id) for job in jobs]

    async def poll() -> dict[str, float] | None:
        times: dict[str, float] = (await api.http.get("/v1/models/tokens")).raise_for_status().json()["triton"]
        return times if (times["queue_ms"] or 0) >= 50 and (times["compute_ms"] or 0) >= 100 else None

    found = await eventually(poll, "Triton's times are shown", within=30.0)
    longest = max(job.metrics.inference_ms or 0 for job in ended)
    assert found["queue_ms"] < longest
    assert found["compute_ms"] < longest


async def test_a_dispatcher_that_is_frozen_shows_within_ten_seconds(breakable: Stack, api: Api) -> None:
    """A busy machine may be late once, but not twice."""
    (dispatcher,) = breakable.dispatchers
    took = await measure_until_shown(api, dispatcher)
    if took > SHOWN_WITHIN:
        took = await measure_until_shown(api, dispatcher)
    assert took <= SHOWN_WITHIN


async def measure_until_shown(api: Api, dispatcher: Service) -> float:
    """Return how long it takes until the freeze shows. End it, and check that the job that waited runs."""
    await eventually(partial(is_ready, api, True), "the model is ready")
    dispatcher.freeze()
    began = time.monotonic()
    try:
        job = await api.submit("echo", {"x": [[1.0]]})
        await wait_for(api, job.id, "dispatcher", "no dispatcher has this model since 20")
        await eventually(partial(is_ready, api, False), "the model is not ready")
        took = time.monotonic() - began
    finally:
        dispatcher.thaw()
    assert (await api.wait(job.id)).status == "succeeded"
    await eventually(partial(is_ready, api, True), "the model is ready again")
    return took
