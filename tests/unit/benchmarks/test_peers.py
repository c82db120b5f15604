"""The comparison with the peers."""

import pytest

from benchmarks.scenarios.peers import compare


def test_ratios_are_ours_as_multiples_of_the_peers() -> None:
    figures = {
        "charonia.open.webhook.p50": 12.0,
        "celery.open.webhook.p50": 6.0,
        "charonia.closed.rate": 900.0,
        "celery.closed.rate": 300.0,
        "charonia.open.cpu.postgres": 1.0,
        "celery.open.cpu.postgres": 0.0,
        "charonia.open.own": 1.0,
    }
    assert compare(figures, "celery", ["open", "closed"]) == {
        "ratio.celery.open.webhook.p50": pytest.approx(2),
        "ratio.celery.closed.rate": pytest.approx(3),
    }
