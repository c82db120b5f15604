"""Instances are started and stopped while the stack runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness import instances
from deploy.local.stack import Stack


class Service:
    """A service that starts at once."""

    def __init__(self, kind: str, port: int, environment: object, log_dir: Path, name: str | None = None) -> None:
        self.kind, self.port, self.name = kind, port, name or kind
        self.log: list[str] = []

    def launch(self) -> None:
        self.log.append("launched")

    def wait_ready(self) -> None:
        self.log.append("ready")

    def stop(self) -> None:
        self.log.append("stopped")


def test_instances_come_and_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(instances, "Service", Service)
    ports = iter(range(20_000, 30_000))
    monkeypatch.setattr(instances, "free_ports", lambda count: [next(ports) for _ in range(count)])
    lists = {f"{kind}s": [Service(kind, 1, {}, tmp_path)] for kind in ("gateway", "dispatcher", "notifier")}
    stack = cast("Stack", SimpleNamespace(environment={}, log_dir=tmp_path, **cast("dict[str, Any]", lists)))
    instances.set_instances(stack, 3)
    assert [each.name for each in lists["gateways"]] == ["gateway", "gateway-2", "gateway-3"]
    further = [each for services in lists.values() for each in services[1:]]
    assert len({each.port for each in further}) == 6  # ports that are free now
    assert [each.log for each in further] == [["launched", "ready"]] * 6
    instances.set_instances(stack, 1)
    assert [each.log[-1] for each in further] == ["stopped"] * 6
    assert [len(services) for services in lists.values()] == [1, 1, 1]
    assert all(services[0].log == [] for services in lists.values())
