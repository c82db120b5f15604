"""What is computed from what was measured."""

import pytest

from benchmarks.gpu.figures import compare, group_by_kind


def test_the_cpu_of_all_instances_is_added_up_and_the_busiest_core_is_found() -> None:
    load = {"jobs": 2000, "took": 4.0, "cpu.gateway": 1.0, "cpu.gateway-2": 1.5, "cpu.postgres": 2.0, "own": 2.5}
    assert group_by_kind(load) == {
        "cpu.gateway": 2.5,
        "cpu.postgres": 2.0,
        "cores.gateway": 0.75,
        "cores.postgres": 1.0,
        "cores": 2.25,
    }


def test_ratios_need_both_figures() -> None:
    measured = {"closed.rate": 99.0, "direct.rate": 100.0, "direct.busy": 0.0, "closed.busy": 0.4}
    assert compare(measured) == {"ratio": 0.99}


def test_the_first_token_is_compared_in_both_ways() -> None:
    measured = {
        "few.stream.first.p50": 18.0,
        "few.direct.first.p50": 6.0,
        "few.stream.first.p99": 30.0,
        "few.direct.first.p99": 10.0,
    }
    assert compare(measured) == {
        "first.ratio": pytest.approx(3),
        "first.more.p50": pytest.approx(12),
        "first.more.p99": pytest.approx(20),
    }
