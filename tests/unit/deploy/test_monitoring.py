"""Each alert says what to do, and is tested both ways; dashboards are what Grafana takes."""

import re
from pathlib import Path

import msgspec
import pytest

from tests.monitoring import DASHBOARDS, MONITORING, PROMETHEUS, ROOT, list_alerts, list_metrics, list_queries, read

ALERTS = {rule["alert"]: rule for rule in list_alerts()}
CASES = {case["name"]: case for case in read(PROMETHEUS / "rules_test.yaml")["tests"]}
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(file: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in HEADING.findall(file.read_text())}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_to_do(name: str) -> None:
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


def test_no_test_and_no_runbook_is_of_an_alert_that_is_gone() -> None:
    assert {name.split()[0] for name in CASES} == set(ALERTS)
    runbook = (ROOT / "docs" / "operations.md").read_text().split("## Alerts\n")[1].split("\n## ")[0]
    assert set(HEADING.findall(runbook)) == set(ALERTS)


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_has_an_id_of_its_own_and_the_provisioned_source(file: Path) -> None:
    dashboard = msgspec.json.decode(file.read_bytes())
    (source,) = read(MONITORING / "grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    assert dashboard["uid"] == file.stem
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    assert all(panel["targets"] for panel in panels)
    assert list_queries(file)


def test_names_of_metrics_are_found_in_an_expression() -> None:
    text = (
        'histogram_quantile(0.9, sum by (le, a) (rate(x_bucket{b="c"}[5m]))) > 1 and max by (d) (y) or absent(z{e="f"})'
    )
    assert list_metrics(text) == {"x_bucket", "y", "z"}
