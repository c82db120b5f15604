"""The stack starts on each machine with Docker: any folder, any ports, a clone on Windows, and code that changes."""

import importlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.compose import triton
from deploy.local.servers.triton import Triton
from deploy.local.settings import ROOT
from tests.unit.deploy.compose.compose_files import COMPOSE, fill_in, read

FILES = ("compose.yaml", "compose.gpu.yaml", "compose.production.yaml")
PUBLISHED = re.compile(r"127\.0\.0\.1:\$\{([A-Z0-9_]+_PORT):-(\d+)\}:\d+")
USE = re.compile(r"\$\{(\w+):-((?:[^{}]|\$\{[^{}]*\})*)\}")
OURS = ("gateway", "dispatcher", "notifier")
GUIDE = (ROOT / "docs" / "how-to" / "docker-compose.md").read_text()


def list_ports() -> dict[str, str]:
    """Return the default of the variable of each published port."""
    given = [port for file in FILES for each in read(file)["services"].values() for port in each.get("ports", ())]
    found = [PUBLISHED.fullmatch(port) for port in given]
    assert all(found), given  # on loopback, and with a variable
    return {each[1]: each[2] for each in found if each}


def test_the_first_screen_of_the_readme_starts_the_stack_with_docker_alone() -> None:
    screen = (ROOT / "README.md").read_text().partition("## How it works")[0]
    assert len(screen.splitlines()) < 40
    assert "On a Mac, Windows or Ubuntu" in screen
    (block,) = re.findall(r"```sh\n(.*?)```", screen, re.DOTALL)
    assert block.splitlines() == ["cd deploy/compose", "docker compose up --detach", "docker compose run --rm smoke"]
    assert read()["services"]["smoke"]["profiles"] == ["commands"]  # not started by `up`


def test_each_published_port_is_on_loopback_and_has_a_variable_that_the_guide_names() -> None:
    ports = list_ports()
    assert len(set(ports.values())) == len(ports) == 8
    for name, port in ports.items():
        assert f"`{name}`" in GUIDE, name
        assert f"`localhost:{port}`" in GUIDE, port


def test_the_addresses_that_clients_get_follow_the_ports() -> None:
    environment = read()["services"]["gateway"]["environment"]
    for name, port in (("PUBLIC_URL", "GATEWAY"), ("TRACE_URL", "JAEGER"), ("STORE_PUBLIC_ENDPOINT", "S3")):
        default = list_ports()[f"{port}_PORT"]
        assert f":-http://localhost:${{{port}_PORT:-{default}}}}}" in environment[f"CHARONIA_{name}"]


def test_a_variable_has_one_default() -> None:
    found: dict[str, set[str]] = {}
    for file in ("compose.yaml", "compose.gpu.yaml"):
        for name, default in USE.findall((COMPOSE / file).read_text()):
            found.setdefault(name, set()).add(default)
    assert {name: defaults for name, defaults in found.items() if len(defaults) > 1} == {}


def test_the_project_has_its_name_in_a_folder_of_any_name() -> None:
    assert read()["name"] == "charonia"


def test_a_container_that_is_made_again_leaves_no_volume_without_a_name() -> None:
    for service, found in read()["services"].items():
        for volume in found.get("volumes", ()):
            assert isinstance(volume, dict) or ":" in volume, service
    assert "fetched:/var/tmp" in read()["services"]["dispatcher"]["volumes"]


def test_no_registry_is_asked_for_an_image_that_is_built_here() -> None:
    services = read()["services"].values()
    ours = [each for each in services if each["image"].startswith("charonia/")]
    assert len(ours) == 7
    assert {each.get("pull_policy") for each in ours} == {"never"}
    assert all("build" not in each for each in services if each not in ours)


@pytest.mark.parametrize(
    "file", ["deploy/compose/smoke.py", "deploy/compose/rehearsal/postgres.sh", "deploy/bundle/install"]
)
def test_a_clone_on_windows_has_scripts_that_linux_runs(file: str) -> None:
    argv = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "check-attr", "eol", "--", file]
    assert subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout.strip().endswith(": lf")


@pytest.mark.parametrize("service", OURS)
def test_a_change_of_the_code_builds_the_services_that_have_it(service: str) -> None:
    watched = read()["services"][service]["develop"]["watch"]
    assert {each["action"] for each in watched} == {"rebuild"}
    places = {(COMPOSE / each["path"]).resolve() for each in watched}
    console = {ROOT / "console"} if service == "gateway" else set()
    assert places == {ROOT / "common", ROOT / "services" / service} | console


def test_the_venv_is_not_made_again_when_code_changes() -> None:
    """What follows the first COPY of code in the Dockerfile touches no file of it."""
    build = (COMPOSE / "Dockerfile").read_text().partition("COPY common")[2].partition("\nFROM ")[0]
    assert "find /venv" not in build
    assert "pip" not in build


def test_models_of_ones_own_are_mounted_and_kept_out_of_images_and_commits() -> None:
    for file, target in (("compose.yaml", "/more-models"), ("compose.gpu.yaml", "/models")):
        (mounted,) = read(file)["services"]["triton"]["volumes"]
        assert (fill_in(mounted["source"]), mounted["target"], mounted["read_only"]) == ("./models", target, True)
    assert "deploy/compose/models" in (ROOT / ".dockerignore").read_text().splitlines()
    argv = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "check-ignore", "deploy/compose/models/mine/config.pbtxt"]
    assert subprocess.run(argv, stdout=subprocess.DEVNULL, check=False, timeout=20).returncode == 0


def test_packages_of_ones_own_models_are_installed_with_the_numpy_of_triton() -> None:
    assert fill_in(read()["services"]["triton"]["build"]["args"]["MODEL_PACKAGES"]) == ""
    dockerfile = (COMPOSE / "triton.Dockerfile").read_text()
    assert 'ARG MODEL_PACKAGES=""' in dockerfile
    assert "'numpy<2' ${MODEL_PACKAGES}" in dockerfile


def test_the_weights_of_language_models_are_in_the_image_only_if_asked_for() -> None:
    service = read()["services"]["triton"]
    assert [fill_in(each["LANGUAGE_MODELS"]) for each in (service["build"]["args"], service["environment"])] == [
        "0",
        "0",
    ]
    dockerfile = (COMPOSE / "triton.Dockerfile").read_text()
    assert "ARG LANGUAGE_MODELS=0" in dockerfile
    assert 'RUN [ "${LANGUAGE_MODELS}" != 1 ] || ' in dockerfile


@pytest.mark.parametrize(("asked", "more"), [("0", []), ("1", ["--model-repository=/language-models"])])
def test_triton_loads_models_of_ones_own_when_they_change(
    monkeypatch: pytest.MonkeyPatch, asked: str, more: list[str]
) -> None:
    monkeypatch.setenv("LANGUAGE_MODELS", asked)
    started: list[list[str]] = []
    monkeypatch.setenv(triton.KEY, "secret")
    monkeypatch.setattr(Triton, "prepare", lambda self: None)
    monkeypatch.setattr("deploy.local.servers.triton._find_package", lambda venv: Path("/venv/lib/python3/pytriton/x"))
    monkeypatch.setattr("deploy.local.servers.triton.run", lambda argv, timeout: "/usr/lib")
    monkeypatch.setattr(os, "execve", lambda path, argv, environment: started.append(argv))
    triton.main()
    (argv,) = started
    assert [each for each in argv if each.startswith("--model-repository")] == [
        "--model-repository=/models",
        *more,
        "--model-repository=/more-models",
    ]
    assert {"--model-control-mode=poll", "--repository-poll-secs=5"} <= set(argv)


@pytest.fixture
def smoke(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, with the variables that its container gets."""
    for name, value in read()["services"]["smoke"]["environment"].items():
        monkeypatch.setenv(name, fill_in(value))
    return importlib.reload(importlib.import_module("deploy.compose.smoke"))


def test_the_smoke_test_uses_urls_for_the_host_in_its_container(smoke: Any) -> None:
    request = smoke.at_store("http://localhost:8333/charonia/x?signature=1", b"x", method="PUT")
    assert request.full_url == "http://s3:8333/charonia/x?signature=1"
    assert (request.get_header("Host"), request.get_method()) == ("localhost:8333", "PUT")
