"""The guide shows the settings of Patroni that the storm runs."""

import re
from pathlib import Path
from typing import Any

import yaml

from deploy.local.settings import ROOT
from tests.support.cluster.network import Machine
from tests.support.cluster.patroni import TIMES, PatroniNode

GUIDE = ROOT / "docs" / "how-to" / "high-availability.md"


def find_differences(shown: dict[str, Any], used: dict[str, Any], above: str = "") -> list[str]:
    """Return the settings that are shown and not used."""
    found = []
    for name, value in shown.items():
        if isinstance(value, dict):
            found += find_differences(value, used.get(name, {}), f"{above}{name}.")
        elif used.get(name) != value:
            found.append(f"{above}{name}")
    return found


def test_guide_shows_what_the_storm_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(etcd:.*?)```", GUIDE.read_text(), re.DOTALL)
    shown = yaml.safe_load(block)
    machine = Machine("database-1", "10.77.2.1")
    used = PatroniNode(machine, [machine], "secret", tmp_path).configuration
    differ = {"etcd.hosts", *(f"bootstrap.dcs.{name}" for name in TIMES)}
    assert set(find_differences(shown, used)) == differ
    assert {"synchronous_mode", "failsafe_mode"} <= shown["bootstrap"]["dcs"].keys()
