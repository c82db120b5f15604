"""The chart has the alerts and dashboards of deploy/monitoring, and names jobs as these do."""

import re
import tarfile
from pathlib import Path

import yaml

from tests.support.cluster.helm import CHART, find, list_pods, render, run_helm
from tests.support.telemetry.monitoring_files import DASHBOARDS, PROMETHEUS, list_alerts


def test_the_rules_are_those_of_compose() -> None:
    assert find(render("everything"), "PrometheusRule")["spec"] == yaml.safe_load(
        (PROMETHEUS / "rules.yaml").read_text()
    )


def test_the_dashboards_are_those_of_compose() -> None:
    maps = [each for each in render("everything") if each["kind"] == "ConfigMap"]
    found = {name: text for each in maps for name, text in each["data"].items()}
    assert {name: text.strip() for name, text in found.items()} == {
        file.name: file.read_text().strip() for file in DASHBOARDS
    }
    assert all(each["metadata"]["labels"]["grafana_dashboard"] == "1" for each in maps)


def test_a_package_has_the_files_and_not_links(tmp_path: Path) -> None:
    done = run_helm("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as archive:
        members = {each.name.removeprefix("charonia/"): each for each in archive.getmembers()}
        assert all(each.isfile() for each in members.values())
        rules = archive.extractfile(members["files/rules.yaml"])
        assert rules is not None
        assert rules.read() == (PROMETHEUS / "rules.yaml").read_bytes()
    assert {f"files/dashboards/{file.name}" for file in DASHBOARDS} <= members.keys()


def test_each_metrics_port_is_scraped_as_the_job_that_alerts_name() -> None:
    objects = render("everything")
    gateways, others = [each["spec"] for each in objects if each["kind"] == "PodMonitor"]
    (endpoint,) = gateways["podMetricsEndpoints"]
    jobs = {endpoint["relabelings"][0]["replacement"]}
    (rule,) = others["selector"]["matchExpressions"]
    service, _ = others["podMetricsEndpoints"]
    jobs |= {service["relabelings"][0]["replacement"].replace("$1", component) for component in rule["values"]}
    named = {job for alert in list_alerts() for job in re.findall(r'job="(charonia-[a-z]+)"', alert["expr"])}
    assert named <= jobs
    labels = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for _, pod in list_pods(objects)}
    assert {f"charonia-{component}" for component in labels - {"migration", "operator"}} == jobs
