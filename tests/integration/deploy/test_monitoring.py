"""Prometheus and Alertmanager accept their configurations, and every alert passes its tests."""

import subprocess

import pytest

from tests.support.telemetry.monitoring_files import MONITORING, PROMETHEUS


@pytest.mark.parametrize(
    "command",
    [
        ["promtool", "check", "config", str(PROMETHEUS / "prometheus.yml")],  # includes the rules
        ["promtool", "test", "rules", str(PROMETHEUS / "rules_test.yaml")],
        ["amtool", "check-config", str(MONITORING / "alertmanager" / "alertmanager.yml")],
    ],
    ids=["configuration and rules", "alerts", "alertmanager"],
)
def test_the_vendor_tool_accepts_it(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
