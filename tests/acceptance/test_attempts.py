"""What one attempt may take, and what follows when all are used up: another model, once."""

from deploy.local.stack import Stack
from tests.acceptance.client import Api, Failure
from tests.acceptance.metrics import read_metric, wait_for_metric
from tests.acceptance.samples import work

TWICE = {"max_attempts": 2, "initial_delay": 0}
TIMEOUT = 1  # second
LATE = Failure("timeout", "the attempt took longer than its timeout of 1 s", True)


async def test_each_attempt_is_cut_at_its_timeout_inside_triton_too(stack: Stack, api: Api) -> None:
    seen = stack.triton.metrics_url, "work_cancelled_total"
    before = await read_metric(*seen)
    job = await api.run("work", work(30_000), timeout=TIMEOUT, retry=TWICE)
    assert (job.status, job.attempt, job.error) == ("failed", 2, LATE)
    attempts = await api.list_attempts(job.id)
    assert [(each.attempt, each.status, each.error_code) for each in attempts] == [
        (1, "failed", "timeout"),
        (2, "failed", "timeout"),
    ]
    assert all(1000 <= each.duration_ms < 3000 for each in attempts)
    await wait_for_metric(*seen, before + 2)


async def test_a_fallback_runs_once_the_attempts_are_used_up(api: Api) -> None:
    job = await api.run("work", work(2000), timeout=TIMEOUT, retry=TWICE, fallback_model="work_small")
    assert (job.status, job.model, job.attempt, job.error) == ("succeeded", "work_small", 3, None)
    assert job.output("slept") == [200]
    assert [(each.attempt, each.model, each.status) for each in await api.list_attempts(job.id)] == [
        (1, "work", "failed"),
        (2, "work", "failed"),
        (3, "work_small", "succeeded"),
    ]


async def test_a_fallback_that_fails_too_is_the_end(api: Api) -> None:
    job = await api.run("work", work(20_000), timeout=TIMEOUT, retry=TWICE, fallback_model="work_small")
    assert (job.status, job.model, job.attempt, job.error) == ("failed", "work_small", 3, LATE)
    assert [(each.attempt, each.model, each.status) for each in await api.list_attempts(job.id)] == [
        (1, "work", "failed"),
        (2, "work", "failed"),
        (3, "work_small", "failed"),
    ]
