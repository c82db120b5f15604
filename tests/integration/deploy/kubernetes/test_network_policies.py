"""NetworkPolicies refuse all that a component does not need."""

from typing import Any

from tests.support.cluster.helm import Object, list_pods, parse, render, render_text

NOTIFIER, GATEWAY, MAINTENANCE, POOL, MIGRATION = (
    "charonia-notifier",
    "charonia-gateway",
    "charonia-maintenance",
    "charonia-pool-all",
    "charonia-migration",
)
PORTS = {53: "dns", 5432: "database", 5672: "broker", 443: "store", 4318: "telemetry", 8080: "gateway"}


def applies(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a selector, with the operators that the chart uses, selects a pod."""
    for rule in selector.get("matchExpressions", ()):
        found = labels.get(rule["key"]) in rule["values"]
        if found == (rule["operator"] == "NotIn"):
            return False
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def list_policies(objects: list[Object], owner: str) -> list[Object]:
    """Return the policies of a workload's pods."""
    labels = dict(list_pods(objects))[owner]["metadata"]["labels"]
    policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    return [each for each in policies if applies(each["podSelector"], labels)]


def list_targets(objects: list[Object], owner: str) -> set[str]:
    """Return what a pod may reach. A rule without ports is for the internet."""
    rules = [rule for policy in list_policies(objects, owner) for rule in policy.get("egress", ())]
    return {PORTS[port] for rule in rules for each in rule.get("ports", ()) if (port := each["port"]) in PORTS} | {
        "internet" for rule in rules if "ports" not in rule
    }


def test_a_pod_reaches_what_it_needs_and_nothing_else() -> None:
    objects = render("minimal")
    services = {"dns", "database", "broker", "telemetry"}
    assert list_targets(objects, GATEWAY) == services | {"store"}
    assert list_targets(objects, NOTIFIER) == services | {"internet"}
    assert list_targets(objects, MAINTENANCE) == services | {"store"}
    assert list_targets(objects, POOL) == services | {"store", "internet", "gateway"}
    assert list_targets(objects, MIGRATION) == {"dns", "database"}


def test_all_else_is_refused_for_every_pod() -> None:
    for name in ("minimal", "everything", "two-pools"):
        objects = render(name)
        for owner, _ in list_pods(objects):
            assert any({*each["policyTypes"]} == {"Ingress", "Egress"} for each in list_policies(objects, owner))


def test_webhooks_reach_no_private_network() -> None:
    (rule,) = (
        rule
        for policy in list_policies(render("minimal"), NOTIFIER)
        for rule in policy.get("egress", ())
        if "ports" not in rule
    )
    v4, v6 = (peer["ipBlock"] for peer in rule["to"])
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= {*v4["except"]}
    assert {"fc00::/7", "fe80::/10"} <= {*v6["except"]}


def test_inputs_by_url_can_be_forbidden() -> None:
    objects = parse(render_text("minimal", {"networkPolicy": {"inputs": {"enabled": False}}}))
    assert "internet" not in list_targets(objects, POOL)
    assert "internet" in list_targets(objects, NOTIFIER)


def test_metrics_of_a_gateway_have_a_port_that_only_prometheus_reaches() -> None:
    objects = render("minimal")  # everybody may call the API
    rules = [rule for policy in list_policies(objects, GATEWAY) for rule in policy.get("ingress", ())]
    found = {rule["ports"][0]["port"]: "monitoring" in str(rule.get("from")) for rule in rules}
    assert found == {8080: False, 9090: True}
    (container,) = dict(list_pods(objects))[GATEWAY]["spec"]["containers"]
    assert {"name": "CHARONIA_METRICS_PORT", "value": "9090"} in container["env"]


def test_nobody_calls_a_pod_but_the_gateway_and_for_metrics() -> None:
    objects = render("production")
    for owner, _ in list_pods(objects):
        rules = [rule for policy in list_policies(objects, owner) for rule in policy.get("ingress", ())]
        callers = [str(rule.get("from")) for rule in rules]
        assert len(callers) == {GATEWAY: 2, MIGRATION: 0}.get(owner, 1), owner
        assert all("monitoring" in each or "ingress-nginx" in each for each in callers)
    assert not list_policies(parse(render_text("minimal", {"networkPolicy": {"enabled": False}})), NOTIFIER)
