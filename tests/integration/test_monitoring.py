"""Prometheus and Alertmanager take their configurations, and each alert does what its test says."""

import subprocess

import pytest

from tests.monitoring import MONITORING, PROMETHEUS


@pytest.mark.parametrize(
    "command",
    [
        ["promtool", "check", "config", str(PROMETHEUS / "prometheus.yml")],  # and the rules in it
        ["promtool", "test", "rules", str(PROMETHEUS / "rules_test.yaml")],
        ["amtool", "check-config", str(MONITORING / "alertmanager" / "alertmanager.yml")],
    ],
    ids=["configuration and rules", "alerts", "alertmanager"],
)
def test_its_own_tool_is_content(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
