"""A model's counters begin at 0, because Prometheus does not see the increase of a new series."""

import pytest

from common.job_states import TERMINAL
from common.telemetry.metrics import PIPELINES
from services.dispatcher import metrics
from tests.support.telemetry.process_metrics import count


def test_the_ended_jobs_of_a_model_begin_at_0() -> None:
    metrics.init_model("fresh")
    assert {count("charonia_jobs_ended_total", model="fresh", status=status) for status in TERMINAL} == {0.0}


def test_the_ended_runs_of_pipelines_begin_at_0() -> None:
    assert None not in {count("charonia_jobs_ended_total", model=PIPELINES, status=status) for status in TERMINAL}


@pytest.mark.parametrize("code", ["model_crashed", "triton_unavailable", "inference_failed", "invalid_input"])
def test_the_errors_of_a_model_begin_at_0(code: str) -> None:
    metrics.init_model("fresh")
    assert count("charonia_inference_errors_total", model="fresh", code=code) == 0.0
