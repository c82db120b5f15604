"""The chart renders valid objects, and pods that get what their service needs and no secret."""

import functools
import re
from collections import Counter
from typing import Any

import kubernetes_validate
import pytest
from kubernetes_validate.utils import schema_contents

from common.postgres.migrate import MigrationSettings
from common.settings import Settings, load
from deploy.local.servers.model_control import KEY_HEADER as HEADER
from deploy.local.servers.triton import RESTRICTED
from services.dispatcher.settings import DispatcherSettings, MaintenanceSettings
from services.dispatcher.triton.connection import KEY_HEADER
from services.gateway.settings import GatewaySettings
from services.notifier.settings import NotifierSettings
from tests.support.cluster.helm import (
    CHART,
    FILES,
    Object,
    file_options,
    find,
    list_containers,
    list_pods,
    parse,
    render,
    render_text,
    run_helm,
)

OLDEST, NEWEST = "1.29", "1.37"
CUSTOM = ("monitoring.coreos.com/", "keda.sh/")  # kinds of operators, of which there are no schemas
SETTINGS: dict[str, type[Settings]] = {
    "gateway": GatewaySettings,
    "dispatcher": DispatcherSettings,
    "notifier": NotifierSettings,
}
SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|KEYS?$|DATABASE_URL|AMQP_URL|PROXY|HEADERS")
EXAMPLES = {
    "CHARONIA_DATABASE_URL": "postgresql://user:password@a:5432,b:5432/charonia",
    "CHARONIA_AMQP_URL": "amqp://user:password@a:5672/charonia",
    "CHARONIA_EGRESS_PROXY": "http://proxy:3128",
}
SECURE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsGroup": 10001,
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}
values = pytest.mark.parametrize("name", FILES)


def test_there_are_five_values_files() -> None:
    assert FILES == ["everything", "from-zero", "minimal", "production", "two-pools"]


@values
def test_helm_finds_no_fault(name: str) -> None:
    done = run_helm("lint", "--strict", str(CHART), *file_options(name), stdin="{}")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_knows_each_field(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_validate.utils, "schema_contents", functools.cache(schema_contents))
    for each in [each for name in FILES for each in render(name)]:
        if not each["apiVersion"].startswith(CUSTOM):
            kubernetes_validate.validate(each, version, strict=True)


@values
def test_names_are_unique_and_short(name: str) -> None:
    names = Counter((each["kind"], each["metadata"]["name"]) for each in render(name))
    assert {each for each, count in names.items() if count > 1} == set()
    assert max(len(each) for _, each in names) < 64


@values
def test_each_container_has_the_security_settings(name: str) -> None:
    for owner, pod in list_pods(render(name)):
        assert pod["spec"]["automountServiceAccountToken"] is False, owner
        assert pod["spec"]["enableServiceLinks"] is False, owner
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True, owner
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod["spec"].keys()
        for container in list_containers(pod):
            assert container["securityContext"] == SECURE, owner
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]


@values
def test_each_mount_has_a_volume_and_each_volume_a_mount(name: str) -> None:
    for owner, pod in list_pods(render(name)):
        mounted = {mount["name"] for each in list_containers(pod) for mount in each["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}, owner


@values
def test_a_secret_is_only_a_reference(name: str) -> None:
    objects = render(name)
    assert "Secret" not in {each["kind"] for each in objects}
    for _, pod in list_pods(objects):
        for variable in (each for container in list_containers(pod) for each in container.get("env", ())):
            assert not (SECRET.search(variable["name"]) and "value" in variable), variable["name"]


def read_environment(container: Object) -> dict[str, str]:
    """Return the variables of a container, those of the image included, with examples in place of secrets."""
    given = {each["name"]: each.get("value", EXAMPLES.get(each["name"], "x" * 44)) for each in container["env"]}
    return {"CHARONIA_PORT": "8080", **given}


@values
def test_each_service_takes_its_settings(name: str) -> None:
    for owner, pod in list_pods(render(name)):
        for container in pod["spec"]["containers"]:
            environment = read_environment(container)
            service = container["image"].rpartition("/")[2].partition(":")[0]
            if container["name"] == "migration":
                load(MigrationSettings, environment)
            elif container["name"] == "maintenance":
                load(MaintenanceSettings, environment)
            elif container["name"] != "operator":
                found = load(SETTINGS[service], environment)
                grace = pod["spec"]["terminationGracePeriodSeconds"]
                assert grace >= found.shutdown_grace + 10, owner


@values
def test_a_workload_selects_its_own_pods(name: str) -> None:
    objects = render(name)
    pods = {owner: pod["metadata"]["labels"].items() for owner, pod in list_pods(objects)}

    def select(selector: dict[str, Any]) -> set[str]:
        return {owner for owner, labels in pods.items() if selector.items() <= labels}

    for each in objects:
        match each["kind"]:
            case "Deployment":
                assert select(each["spec"]["selector"]["matchLabels"]) == {each["metadata"]["name"]}
            case "Service":
                assert select(each["spec"]["selector"]) == {"charonia-gateway"}
            case "PodDisruptionBudget":
                assert select(each["spec"]["selector"]["matchLabels"]) == {each["metadata"]["name"]}
            case "NetworkPolicy":
                assert select(each["spec"]["podSelector"]["matchLabels"])


@values
def test_a_pool_is_a_triton_and_its_dispatcher(name: str) -> None:
    pods = [pod["spec"] for owner, pod in list_pods(render(name)) if "-pool-" in owner]
    assert pods
    for pod in pods:
        (triton,), (dispatcher,) = pod["initContainers"], pod["containers"]
        assert triton["restartPolicy"] == "Always"  # it starts before the dispatcher, and stops after it
        assert read_environment(dispatcher)["CHARONIA_TRITON_URL"] == "localhost:8001"
        assert {"--exit-on-error=false", "--strict-readiness=false"} <= {*triton["args"]} or name == "two-pools"


@values
def test_triton_asks_for_the_key_that_its_dispatcher_has(name: str) -> None:
    variable = "CHARONIA_TRITON_REPOSITORY_KEY"
    key = {"secretKeyRef": {"name": "charonia-keys", "key": "triton-repository-key"}}
    restricted = f"{RESTRICTED}:{HEADER}=$({variable})"
    for owner, pod in list_pods(render(name)):
        keys = {each["name"]: find_variable(each, variable) for each in list_containers(pod)}
        expected = dict.fromkeys(("triton", "dispatcher"), key) if "-pool-" in owner else {}
        assert {container: found for container, found in keys.items() if found} == expected
        for triton in pod["spec"].get("initContainers", ()):
            flags = [f"--http-restricted-api={restricted}", f"--grpc-restricted-protocol={restricted}"]
            assert triton["args"][-2:] == flags
    assert f"triton-grpc-protocol-{HEADER}" == KEY_HEADER


def find_variable(container: Object, name: str) -> object:
    return next((each["valueFrom"] for each in container.get("env", ()) if each["name"] == name), None)


def test_without_a_secret_triton_restricts_nothing() -> None:
    text = render_text("minimal", {"secrets": {"tritonRepositoryKey": {"existingSecret": ""}}})
    assert [word for word in ("REPOSITORY_KEY", "repository-key", "restricted") if word in text] == []


def test_an_autoscaled_workload_has_no_count_of_its_own() -> None:
    objects = render("from-zero")
    assert "replicas" not in find(objects, "Deployment", "charonia-pool-burst")["spec"]
    assert find(objects, "Deployment", "charonia-pool-always")["spec"]["replicas"] == 1
    assert find(objects, "Deployment", "charonia-maintenance")["spec"]["replicas"] == 2
    assert "replicas" not in find(render("everything"), "Deployment", "charonia-gateway")["spec"]


def test_a_pool_may_set_what_counts_as_empty() -> None:
    spec = find(render("two-pools"), "Deployment", "charonia-pool-vision")["spec"]
    assert spec["replicas"] == 0
    assert spec["template"]["spec"]["initContainers"][0]["args"][:-2] == ["--model-repository=/models"]


def test_the_longest_drain_sets_the_grace_period() -> None:
    pod = find(render("two-pools"), "Deployment", "charonia-pool-language")["spec"]["template"]["spec"]
    (dispatcher,) = pod["containers"]
    assert read_environment(dispatcher)["CHARONIA_SHUTDOWN_GRACE"] == "1800"
    assert read_environment(dispatcher)["CHARONIA_MODELS"] == "llm-*,whisper"
    assert pod["terminationGracePeriodSeconds"] == 1800 + 10 + 30


def test_numbers_are_written_in_full_and_zero_wins() -> None:
    more = {"settings": {"CHARONIA_SHUTDOWN_DELAY": 5}, "gateway": {"settings": {"CHARONIA_SHUTDOWN_DELAY": 0}}}
    for objects, name, value in (
        (render("production"), "CHARONIA_MAX_BODY_BYTES", "33554432"),
        (parse(render_text("minimal", more)), "CHARONIA_SHUTDOWN_DELAY", "0"),
    ):
        pod = find(objects, "Deployment", "charonia-gateway")["spec"]["template"]
        assert read_environment(list_containers(pod)[0])[name] == value
