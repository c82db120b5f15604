"""The rehearsal runs a container with what the chart says, and refuses what it does not know."""

from typing import Any

import pytest

from deploy.compose.rehearsal.containers import (
    SHARED_MEMORY,
    find_port,
    mount,
    run_options,
    secure,
    show_variable,
    to_bytes,
)
from deploy.local.errors import LocalError

FOLDER = "/fetched"
SECURITY = {
    "allowPrivilegeEscalation": False,
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "runAsUser": 10001,
    "runAsGroup": 10001,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER: dict[str, Any] = {
    "image": "charonia/gateway:1",
    "securityContext": SECURITY,
    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    "volumeMounts": [{"name": "tmp", "mountPath": FOLDER}],
    "resources": {"limits": {"memory": "1Gi"}},
    "ports": [{"name": "http", "containerPort": 8080}],
}
POD: dict[str, Any] = {
    "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}}],
    "terminationGracePeriodSeconds": 35,
}


def test_a_container_has_its_variables_user_mounts_and_limits() -> None:
    options, command = run_options(CONTAINER, POD, {("s", "k"): "secret"})
    assert options == [
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges:true",
        "--user=10001:10001",
        "--env",
        "A=1",
        "--env",
        "B=secret",
        f"--tmpfs={FOLDER}:rw,exec,mode=0777,size=1048576",
        "--memory=1073741824",
        "--stop-timeout=35",
    ]
    assert command == ["charonia/gateway:1"]


def test_a_command_is_the_entrypoint_and_arguments_follow() -> None:
    options, command = run_options(CONTAINER | {"command": ["a", "b"], "args": ["c"]}, POD, {("s", "k"): ""})
    assert options[-1] == "--entrypoint=a"
    assert command == ["charonia/gateway:1", "b", "c"]


def test_the_value_of_a_variable_replaces_its_name_in_an_argument() -> None:
    _, command = run_options(CONTAINER | {"args": ["--key=$(B)", "$B $(A)"]}, POD, {("s", "k"): "secret"})
    assert command == ["charonia/gateway:1", "--key=secret", "$B 1"]


def test_shared_memory_and_models_are_mounted_where_docker_has_them() -> None:
    memory = {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "2Ki"}}
    assert mount({"name": "m", "mountPath": SHARED_MEMORY}, [memory]) == ["--shm-size=2048"]
    models = {"name": "m", "hostPath": {"path": "/here"}}
    assert mount({"name": "m", "mountPath": "/models", "readOnly": True}, [models]) == ["--volume=/here:/models:ro"]
    assert find_port(CONTAINER, {"httpGet": {"port": "http"}}) == 8080


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(LocalError, match="security context"):
        secure(SECURITY | {"runAsUser": 0, "readOnlyRootFilesystem": False})
    with pytest.raises(LocalError, match="volume"):
        mount({"name": "x", "mountPath": "/x"}, [{"name": "x", "nfs": {}}])
    with pytest.raises(LocalError, match="variable"):
        show_variable({"name": "x", "valueFrom": {"fieldRef": {}}}, {})
    with pytest.raises(LocalError, match="quantity"):
        to_bytes("1.5Gi")
