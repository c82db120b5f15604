"""The table, its verdicts, and what limits the jobs per second."""

from typing import Any

import pytest

from benchmarks.gpu.summary import AIMS, CLIENT_FULL, judge_columns, judge_growth, name_limit, split_columns, summarize
from benchmarks.harness.report import Figure

CORES = 16
IDLE = {
    "ratio": 0.5,
    "closed.rate": 400.0,
    "closed.compute": 0.5,
    "closed.cores": 4.0,
    "closed.cores.gateway": 0.4,
    "closed.cores.load": 0.2,
    "closed.cores.postgres": 2.0,
    "closed.cpu.gateway": 1.0,
    "closed.cpu.postgres": 3.0,
    "closed.cpu.others": 1.0,
}
FACTS: dict[str, Any] = {
    "cores": CORES,
    "gpu": None,
    "models": {"decoder_0_0": {"device": "cpu", "torch": "2.13.0+cpu", "parameters": "335603712"}},
}


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({}, "neither a core nor the model: 4.0 of 16 cores are in use, and the model computes 50% of the time"),
        ({"closed.compute": 0.97}, "the model, which computes 97% of the time"),
        ({"ratio": 0.985, "closed.compute": 0.8}, "the model, which computes 80% of the time"),
        ({"closed.cores.gateway": 0.99}, "one core of each gateway, used to 99%"),
        ({"closed.cores.load": 0.99}, "one core of the load, used to 99%"),
        ({"closed.cores": 15.0}, "the 16 cores of the machine (postgres 60%, gateway 20%, everything else 20%)"),
    ],
)
def test_the_limit_is_named(change: dict[str, float], limit: str) -> None:
    assert name_limit(IDLE | change, CORES) == limit


def test_postgres_may_use_many_cores() -> None:
    assert name_limit(IDLE | {"closed.cores.postgres": 3.0}, CORES).startswith("neither")


@pytest.mark.parametrize(
    ("rates", "full", "verdict"),
    [
        ([400, 700, 1200], (), "reached"),
        ([400, 700, 705], (2,), "reached, full with 2"),
        ([400, 410, 800], (), "not reached: 2 of each bring no more than 1"),
        ([400], (), "not measured"),
    ],
)
def test_growth_is_judged_until_the_model_is_full(rates: list[float], full: tuple[int, ...], verdict: str) -> None:
    columns = {
        2**index: {"closed.rate": rate, "closed.compute": 1.0 if 2**index in full else 0.5, "ratio": 0.5}
        for index, rate in enumerate(rates)
    }
    assert judge_growth(columns) == verdict


def test_an_aim_is_reached_by_any_number_of_instances() -> None:
    ratio, *_ = AIMS
    assert judge_columns(ratio, {1: {"ratio": 0.5}, 4: {"ratio": 0.981}}) == "reached with 4"
    assert judge_columns(ratio, {1: {"ratio": 0.5}}) == "not reached"
    assert judge_columns(ratio, {1: {}}) == "not measured"


def test_columns_are_in_order() -> None:
    figures = {f"gpu.{count}.ratio": Figure(count, 0, 9) for count in (8, 1, 2)} | {"other": Figure(1, 1, 1)}
    assert split_columns(figures) == {1: {"ratio": 1}, 2: {"ratio": 2}, 8: {"ratio": 8}}


def test_without_a_gpu_the_table_says_so_and_has_no_figure_of_it() -> None:
    figures = {f"gpu.1.{name}": Figure(value, value, value) for name, value in IDLE.items()}
    text = "\n".join(summarize(figures, FACTS))
    assert "There is no GPU" in text
    assert "336 million parameters on cpu" in text
    assert "NVML" not in text
    assert "jobs/s of Triton directly" not in text  # it was not measured
    assert "What limits 1 of each: neither" in text


@pytest.mark.parametrize(("cores", "warned"), [(0.99, True), (0.9, False)])
def test_a_client_that_limits_triton_is_named(cores: float, warned: bool) -> None:
    measured = IDLE | {"direct.cores.client": cores}
    figures = {f"gpu.1.{name}": Figure(value, value, value) for name, value in measured.items()}
    assert (CLIENT_FULL in summarize(figures, FACTS)) == warned


def test_with_a_gpu_the_table_has_its_share() -> None:
    figures = {f"gpu.1.{name}": Figure(value, value, value) for name, value in (IDLE | {"busy.ratio": 0.99}).items()}
    text = "\n".join(summarize(figures, FACTS | {"gpu": "NVIDIA H100"}))
    assert "There is no GPU" not in text
    assert "GPU busy by NVML ÷ directly" in text
