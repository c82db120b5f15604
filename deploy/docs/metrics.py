"""The metrics reference, from what each service registers when it is imported."""

import json
import subprocess
import sys
from collections import defaultdict
from typing import NamedTuple

from deploy.docs.markdown import table
from deploy.local.settings import ROOT

SERVICES = ("gateway", "dispatcher", "notifier")
EVERY = "every service"
PREFIX = "charonia_"
LIST = """
import json
from prometheus_client import REGISTRY
import services.{service}.__main__
print(json.dumps([
    (family.name + "_total" * (family.type == "counter"), family.type, collector._labelnames, family.documentation)
    for collector in REGISTRY._collector_to_names if hasattr(collector, "_labelnames")
    for family in collector.collect()
]))
"""


class Metric(NamedTuple):
    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def read_metrics(service: str) -> list[Metric]:
    """Import a service in a process of its own and return what it has registered."""
    command = [sys.executable, "-W", "ignore", "-c", LIST.format(service=service)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return [Metric(name, kind, tuple(labels), text) for name, kind, labels, text in json.loads(done.stdout)]


def group_metrics() -> dict[str, list[Metric]]:
    """Return the metrics by service, and those of all services once."""
    owners: dict[Metric, list[str]] = defaultdict(list)
    for service in SERVICES:
        for metric in read_metrics(service):
            owners[metric].append(service)
    groups: dict[str, list[Metric]] = defaultdict(list)
    for metric, services in sorted(owners.items()):
        groups[EVERY if len(services) == len(SERVICES) else " and ".join(services)].append(metric)
    return groups


def write_metrics() -> str:
    parts = []
    for group, metrics in sorted(group_metrics().items(), key=lambda item: (item[0] != EVERY, item[0])):
        rows = [
            (f"`{metric.name}`", metric.type, ", ".join(f"`{label}`" for label in metric.labels), metric.help)
            for metric in metrics
        ]
        title = group[0].upper() + group[1:]
        parts.append(f"## {title}\n\n{table(('metric', 'type', 'labels', 'meaning'), rows)}")
    return "\n".join(parts)
