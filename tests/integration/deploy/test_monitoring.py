"""Prometheus and Alertmanager accept their configurations, and every alert passes its tests."""

import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.support.telemetry.monitoring_files import MONITORING, PROMETHEUS, list_alerts, read


def check(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["promtool", "check", "config", PROMETHEUS / "prometheus.yml"],  # includes the rules
        ["amtool", "check-config", MONITORING / "alertmanager" / "alertmanager.yml"],
    ],
    ids=["configuration and rules", "alertmanager"],
)
def test_the_vendor_tool_accepts_it(command: list[str | Path]) -> None:
    check(*command)


def test_every_alert_passes_its_tests(tmp_path: Path) -> None:
    """Each is tested without the others, because promtool evaluates all rules of a file for each test."""
    rules = {rule["alert"]: rule for rule in list_alerts()}
    tests, by_alert = read(PROMETHEUS / "rules_test.yaml"), defaultdict(list)
    for test in tests["tests"]:
        by_alert[test["name"].partition(" ")[0]].append(test)
    assert by_alert.keys() == rules.keys()
    for alert, its_tests in by_alert.items():
        groups = {"groups": [{"name": alert, "rules": [rules[alert]]}]}
        (tmp_path / f"{alert}.yaml").write_text(yaml.safe_dump(groups))
        own = {**tests, "rule_files": [f"{alert}.yaml"], "tests": its_tests}
        (tmp_path / f"{alert}_test.yaml").write_text(yaml.safe_dump(own))
    check("promtool", "test", "rules", *sorted(tmp_path.glob("*_test.yaml")))
