"""What every process counts of itself."""

import asyncio
import time

from common.telemetry.metrics import TICK_SECONDS, count_reused, measure_loop_lag
from tests.support.telemetry.process_metrics import count


async def test_a_loop_that_is_held_up_shows_as_lag() -> None:
    before = count("charonia_loop_lag_seconds_sum") or 0.0
    measuring = asyncio.create_task(measure_loop_lag())
    await asyncio.sleep(0)  # it sleeps
    time.sleep(2 * TICK_SECONDS)  # noqa: ASYNC251 -- that is the fault
    await asyncio.sleep(0.01)
    measuring.cancel()
    assert (count("charonia_loop_lag_seconds_sum") or 0.0) - before >= TICK_SECONDS * 0.9


def test_a_reused_job_counts_as_one_that_ended() -> None:
    count_reused("shared", "hit", 500.0)
    assert count("charonia_jobs_ended_total", model="shared", status="succeeded") == 1.0
    assert count("charonia_jobs_reused_total", model="shared", how="hit") == 1.0
    assert count("charonia_inference_saved_seconds_total", model="shared") == 0.5
