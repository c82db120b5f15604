"""Each alert has a runbook and tests both ways. Dashboards are valid for Grafana."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.support.telemetry.monitoring_files import (
    DASHBOARDS,
    MONITORING,
    PROMETHEUS,
    ROOT,
    list_alerts,
    list_metrics,
    list_queries,
    read,
)

ALERTS = {rule["alert"]: rule for rule in list_alerts()}
CASES = {case["name"]: case for case in read(PROMETHEUS / "rules_test.yaml")["tests"]}
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(file: Path) -> set[str]:
    """Return the anchors that GitHub makes from a file's headings."""
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in HEADING.findall(file.read_text())}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_runbook(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    file, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == name.lower()
    assert anchor in anchors(ROOT / file)
    assert rule["annotations"]["summary"]


@pytest.mark.parametrize("name", ALERTS)
@pytest.mark.parametrize(("verb", "firing"), [("fires", 1), ("stays quiet", 0)])
def test_an_alert_is_tested_both_ways(name: str, verb: str, firing: int) -> None:
    case = CASES[f"{name} {verb}"]
    (test,) = case["promql_expr_test"]
    assert test["expr"] == f'count(ALERTS{{alertname="{name}", alertstate="firing"}})'
    assert len(test["exp_samples"]) == firing
    given = {metric for series in case["input_series"] for metric in list_metrics(series["series"])}
    assert given >= list_metrics(ALERTS[name]["expr"])


def test_every_test_and_runbook_belongs_to_an_alert() -> None:
    assert {name.split()[0] for name in CASES} == set(ALERTS)
    runbook = (ROOT / "docs" / "how-to" / "alerts.md").read_text()
    assert set(re.findall(r"^### (.+)$", runbook, re.MULTILINE)) == set(ALERTS)


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_has_its_own_id_and_the_provisioned_source(file: Path) -> None:
    dashboard = msgspec.json.decode(file.read_bytes())
    (source,) = read(MONITORING / "grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert dashboard["uid"] == file.stem
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    assert all(panel["targets"] for panel in panels)
    assert list_queries(file)


def test_metric_names_are_found_in_an_expression() -> None:
    text = (
        'histogram_quantile(0.9, sum by (le, a) (rate(x_bucket{b="c"}[5m]))) > 1 and max by (d) (y) or absent(z{e="f"})'
    )
    assert list_metrics(text) == {"x_bucket", "y", "z"}
