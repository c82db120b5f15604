"""Each attempt has a timeout. A fallback model runs once when all attempts are used."""

import socket

import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Attempt, Failure
from tests.support.api.model_inputs import work
from tests.support.telemetry.scraped_metrics import read_metric, wait_for_metric
from tests.support.telemetry.service_logs import find_worker

TWICE = {"max_attempts": 2, "initial_delay": 0}
TIMEOUT = 1  # second
TIMED_OUT = Failure("timeout", "the attempt took longer than its timeout of 1 s", True)


@pytest.fixture(autouse=True)
async def answered(api: Api) -> None:
    """Let the model answer, so that the timeouts of another test's job do not open its breaker."""
    await api.run("work", work(1))


async def list_counted(api: Api, job_id: str) -> list[Attempt]:
    """Return the attempts that count. One is returned instead if Triton stood still for a second at its end."""
    return [each for each in await api.list_attempts(job_id) if each.status != "returned"]


async def test_each_attempt_is_canceled_at_its_timeout_inside_triton_too(stack: Stack, api: Api) -> None:
    cancelled = stack.triton.metrics_url, "work_cancelled_total"
    before = await read_metric(*cancelled)
    job = await api.run("work", work(30_000), timeout=TIMEOUT, retry=TWICE)
    assert (job.status, job.attempt, job.error) == ("failed", 2, TIMED_OUT)
    attempts = await list_counted(api, job.id)
    assert [(each.attempt, each.status, each.error_code) for each in attempts] == [
        (1, "failed", "timeout"),
        (2, "failed", "timeout"),
    ]
    assert all(1000 <= each.duration_ms < 15_000 for each in attempts)  # half of what the model would take
    await wait_for_metric(*cancelled, before + 2)


async def test_fallback_model_runs_once_when_all_attempts_are_used(api: Api) -> None:
    """The fallback takes a tenth of the time, well below the timeout."""
    job = await api.run("work", work(10_000), timeout=4, retry=TWICE, fallback_model="work_small")
    assert (job.status, job.model, job.attempt, job.error) == ("succeeded", "work_small", 3, None)
    assert job.output("slept") == [1000]
    assert [(each.attempt, each.model, each.status) for each in await list_counted(api, job.id)] == [
        (1, "work", "failed"),
        (2, "work", "failed"),
        (3, "work_small", "succeeded"),
    ]


async def test_job_fails_when_its_fallback_model_fails_too(api: Api) -> None:
    job = await api.run("work", work(20_000), timeout=TIMEOUT, retry=TWICE, fallback_model="work_small")
    assert (job.status, job.model, job.attempt, job.error) == ("failed", "work_small", 3, TIMED_OUT)
    assert [(each.attempt, each.model, each.status) for each in await list_counted(api, job.id)] == [
        (1, "work", "failed"),
        (2, "work", "failed"),
        (3, "work_small", "failed"),
    ]


async def test_worker_of_an_attempt_hides_host_and_pid_which_the_log_has(stack: Stack, api: Api) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    (attempt,) = await api.list_attempts(job.id)
    pid = stack.dispatchers[0].process.pid
    assert pid is not None
    assert attempt.worker == find_worker(stack.dispatchers[0], pid)
    assert socket.gethostname() not in attempt.worker
    assert str(pid) not in attempt.worker.split("-")
