"""Counters of a model begin at 0: a first increase from nothing is none to Prometheus."""

import pytest

from common.jobs import TERMINAL
from services.dispatcher import metrics
from tests.numbers import count


def test_what_alerts_count_of_a_model_begins_at_0() -> None:
    metrics.prepare("fresh")
    assert {count("charonia_jobs_ended_total", model="fresh", status=status) for status in TERMINAL} == {0.0}


@pytest.mark.parametrize("code", ["model_crashed", "triton_unavailable", "inference_failed", "invalid_input"])
def test_the_errors_of_a_model_begin_at_0(code: str) -> None:
    metrics.prepare("fresh")
    assert count("charonia_inference_errors_total", model="fresh", code=code) == 0.0
