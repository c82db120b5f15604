"""The files in deploy/monitoring: alerts, their tests, dashboards, and the metrics in their expressions."""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
PROMETHEUS = MONITORING / "prometheus"
DASHBOARDS = sorted((MONITORING / "grafana" / "dashboards").glob("*.json"))

# Parts that are not metric names: strings, labels, durations, functions, keywords.
NOISE = re.compile(
    r'"[^"]*"|\{[^}]*\}|\[[^]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)'
    r"|[a-z_]+\s*(?=\()|\boffset \d+[a-z]|\b(?:and|or|unless|bool|sum|max|min|count|avg)\b"
)
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def list_alerts() -> list[dict[str, Any]]:
    return [rule for group in read(PROMETHEUS / "rules.yaml")["groups"] for rule in group["rules"]]


def list_queries(dashboard: Path) -> list[str]:
    """Return the queries of all panels, with an interval in place of Grafana's variable."""
    panels = msgspec.json.decode(dashboard.read_bytes())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [query.replace("$__rate_interval", "1m") for query in queries]


def list_metrics(expression: str) -> set[str]:
    return set(NAME.findall(NOISE.sub(" ", expression)))
