"""Pools that scale: the ScaledObject, and what dispatchers need to write the deletion cost of their pods."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from services.dispatcher.settings import DispatcherSettings
from tests.support.cluster.helm import (
    FILES,
    Object,
    find,
    list_containers,
    list_pods,
    parse,
    refuse,
    render,
    render_text,
)
from tests.support.cluster.scaled_object import make_pool, render_scaled_objects

SCHEMA = json.loads(Path(__file__).with_name("scaledobject.schema.json").read_text())
GRACE = "CHARONIA_MODEL_GRACE"
DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(DispatcherSettings)}


def find_pod(objects: list[Object], owner: str) -> Object:
    return dict(list_pods(objects))[owner]


@pytest.mark.parametrize("name", FILES)
def test_scaled_objects_have_the_shape_that_keda_documents(name: str) -> None:
    objects = render(name)
    scaled = [each for each in objects if each["kind"] == "ScaledObject"]
    for each in scaled:
        jsonschema.validate(each, SCHEMA)
        assert "replicas" not in find(objects, "Deployment", each["spec"]["scaleTargetRef"]["name"])["spec"]
    assert len(scaled) == {"everything": 1, "from-zero": 1}.get(name, 0)


def test_values_of_a_pool_reach_its_scaled_object() -> None:
    pool = make_pool("a", ["llm"], slots=6, minReplicas=1, maxReplicas=5, pollingSeconds=7, cooldownSeconds=60)
    pool["autoscaling"]["authentication"] = "prometheus"
    (scaled,) = render_scaled_objects(pool)
    jsonschema.validate(scaled, SCHEMA)
    spec, (trigger,) = scaled["spec"], scaled["spec"]["triggers"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (1, 5)
    assert (spec["pollingInterval"], spec["cooldownPeriod"]) == (7, 60)
    assert (trigger["metadata"]["threshold"], trigger["metadata"]["activationThreshold"]) == ("6", "0")
    assert trigger["authenticationRef"] == {"name": "prometheus"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"slots": None}, "pools: a has no autoscaling.slots"),
        ({"slots": 0}, "at '/pools/0/autoscaling/slots': minimum: got 0, want 1"),
        ({"minReplicas": 3, "maxReplicas": 2}, "pools: a has autoscaling.minReplicas above"),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, object], message: str) -> None:
    assert message in refuse("everything", {"pools": [make_pool("a", ["llm"], **wrong)]})


def test_pattern_that_prometheus_cannot_have_is_refused() -> None:
    assert 'the model pattern "llm-[ab]"' in refuse("everything", {"pools": [make_pool("a", ["llm-[ab]"])]})


def test_only_the_dispatcher_of_a_pool_that_scales_gets_a_token() -> None:
    objects = render("from-zero")
    pod = find_pod(objects, "charonia-pool-burst")
    assert [container["name"] for container in list_containers(pod) if "service-account" in str(container)] == [
        "dispatcher"
    ]
    (dispatcher,) = pod["spec"]["containers"]
    (mount,) = (each for each in dispatcher["volumeMounts"] if each["name"] == "service-account")
    assert mount["mountPath"] == DEFAULTS["service_account"]
    assert {"name": "CHARONIA_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} in dispatcher["env"]
    assert "service-account" not in str(find_pod(objects, "charonia-pool-always"))


def test_dispatchers_may_patch_pods_only_while_a_pool_scales() -> None:
    objects = render("from-zero")
    role, binding = find(objects, "Role"), find(objects, "RoleBinding")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (subject,) = binding["subjects"]
    account = find_pod(objects, "charonia-pool-burst")["spec"]["serviceAccountName"]
    assert (subject["name"], subject["namespace"]) == (account, "inference")
    assert not {"Role", "RoleBinding"} & {each["kind"] for each in render("two-pools")}


def test_models_of_a_sleeping_pool_stay_in_the_catalogue() -> None:
    """Every dispatcher retires models, so those of pools that do not scale wait as long."""

    def read(objects: list[Object], owner: str) -> list[str]:
        (dispatcher,) = find_pod(objects, owner)["spec"]["containers"]
        return [each["value"] for each in dispatcher["env"] if each["name"] == GRACE]

    for pool in ("burst", "always"):
        assert read(render("from-zero"), f"charonia-pool-{pool}") == ["2592000"]
    assert read(render("two-pools"), "charonia-pool-vision") == []
    own = parse(render_text("from-zero", {"settings": {GRACE: 60}}))
    assert read(own, "charonia-pool-burst") == ["60"]


def test_dispatchers_reach_the_api_server_only_while_a_pool_scales() -> None:
    def count(objects: list[Object]) -> int:
        policy = find(objects, "NetworkPolicy", "charonia-dispatcher")
        return sum({"port": 6443, "protocol": "TCP"} in rule.get("ports", ()) for rule in policy["spec"]["egress"])

    assert (count(render("from-zero")), count(render("two-pools"))) == (1, 0)
