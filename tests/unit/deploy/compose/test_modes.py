"""Development needs no settings, whatever files are named. Production is named explicitly, and asks for its keys."""

import re
from itertools import chain
from typing import Any

import pytest

from common.errors import AddressRefused, SettingsError
from common.security.ssrf import AddressPolicy, check_address
from common.settings import EXAMPLE_KEYS, PREFIX, Settings, load
from deploy.local.settings import ROOT
from services.dispatcher.settings import DispatcherSettings
from services.gateway.settings import GatewaySettings
from services.notifier.settings import NotifierSettings
from tests.unit.deploy.compose.compose_files import COMPOSE, read, read_environment

SERVICES: dict[str, type[Settings]] = {
    "gateway": GatewaySettings,
    "dispatcher": DispatcherSettings,
    "notifier": NotifierSettings,
}
DEVELOPMENT = ("compose.yaml", "compose.gpu.yaml")
PRODUCTION = "compose.production.yaml"
OF_THE_IMAGE = {"CHARONIA_HOST": "0.0.0.0", "CHARONIA_PORT": "8080"}
# The host, as Docker on Linux and Docker Desktop show it to containers.
OF_THE_HOST = ("172.17.0.1", "192.168.65.254", "fdc4:f303:9324::254")
USE = re.compile(r"\$\{(\w+)(:[-?])")


def find_variables(file: str) -> dict[str, str]:
    """Return how each variable of the environment is used: with a default (`:-`) or as a mandatory one (`:?`)."""
    return dict(USE.findall((COMPOSE / file).read_text()))


def read_settings(service: str, *files: str) -> Any:
    return load(SERVICES[service], OF_THE_IMAGE | read_environment(service, *files))


def test_development_needs_no_variable_and_no_file_besides() -> None:
    for file in DEVELOPMENT:
        text = (COMPOSE / file).read_text()
        assert {how for _, how in USE.findall(text)} == {":-"}, file
        assert "env_file" not in text
    assert not (COMPOSE / "compose.override.yaml").exists()  # Compose would not read it if -f names a file


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("files", [(), ("compose.gpu.yaml",)], ids=str)
def test_services_accept_the_default_keys_whatever_triton_is_named(service: str, files: tuple[str, ...]) -> None:
    assert read_settings(service, *files).development


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("files", [(PRODUCTION,), (PRODUCTION, "compose.gpu.yaml")], ids=str)
def test_production_refuses_the_default_keys(
    service: str, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match="it has the example key of the repository"):
        read_settings(service, *files)


def test_every_default_key_is_one_that_services_refuse() -> None:
    names = ("BOOTSTRAP_KEY", "ENCRYPTION_KEYS", "URL_KEYS", "TRITON_REPOSITORY_KEY")
    found = {name: value for each in SERVICES for name, value in read_environment(each).items()}
    assert {found[PREFIX + name] for name in names} == EXAMPLE_KEYS


def test_production_asks_for_each_key_and_password() -> None:
    secrets = {name for name in find_variables("compose.yaml") if re.search(r"(PASSWORD|_KEYS?)$", name)}
    assert len(secrets) > 10
    asked = find_variables(PRODUCTION)
    assert {name for name, how in asked.items() if how == ":?"} == secrets | {f"{PREFIX}PUBLIC_URL"}


def test_the_example_names_what_production_asks_for_and_has_no_values() -> None:
    example = dict(re.findall(r"^([A-Z_]+)=(.*)$", (COMPOSE / ".env.example").read_text(), re.MULTILINE))
    files = example.pop("COMPOSE_FILE").split(example.pop("COMPOSE_PATH_SEPARATOR"))
    assert files == ["compose.yaml", PRODUCTION]
    # The volumes of development keep its passwords, and what its encryption key encrypted.
    assert example.pop("COMPOSE_PROJECT_NAME") not in ("", read()["name"])
    assert example == {name: "" for name, how in find_variables(PRODUCTION).items() if how == ":?"}


@pytest.mark.parametrize("service", ["gateway", "notifier"])
def test_only_development_sends_webhooks_to_the_host_and_over_plain_http(service: str) -> None:
    assert read()["services"][service]["extra_hosts"] == ["host.docker.internal:host-gateway"]
    development, production = (read_environment(service, *files) for files in ((), (PRODUCTION,)))
    for environment, allows in ((development, True), (production, False)):
        assert environment[f"{PREFIX}WEBHOOK_HTTP"] == str(allows).lower()
        policy = AddressPolicy.parse(
            [each for each in environment[f"{PREFIX}WEBHOOK_NETWORKS"].split(",") if each], allows
        )
        for address in OF_THE_HOST:
            if allows:
                check_address(address, policy)
            else:
                with pytest.raises(AddressRefused):
                    check_address(address, policy)


@pytest.mark.parametrize("service", ["gateway", "dispatcher"])
def test_only_development_fetches_inputs_over_plain_http(service: str) -> None:
    name = f"{PREFIX}INPUT_HTTP"
    assert [read_environment(service, *files)[name] for files in ((), (PRODUCTION,))] == ["true", "false"]


def test_every_service_of_development_leaves_it_in_production() -> None:
    name = f"{PREFIX}DEVELOPMENT"
    modes = {
        each: (read_environment(each).get(name), read_environment(each, PRODUCTION).get(name))
        for each in read()["services"]
    }
    assert {service for service, found in modes.items() if found == ("1", "0")} == {*SERVICES, "operator"}
    assert {found for service, found in modes.items() if service not in {*SERVICES, "operator"}} == {(None, None)}


def test_no_guide_tells_to_name_files_with_an_option_which_would_leave_production() -> None:
    guides = ((ROOT / "docs").rglob("*.md"), COMPOSE.glob("*.yaml"), [ROOT / "README.md", COMPOSE / ".env.example"])
    assert [each.name for each in chain(*guides) if "docker compose -f" in each.read_text()] == []


def test_the_gpu_changes_triton_alone() -> None:
    text = (COMPOSE / "compose.gpu.yaml").read_text()
    assert read("compose.gpu.yaml")["services"].keys() == {"triton"}
    assert "triton: !override" in text  # it is not merged with the Triton on the CPU
    assert "build" in read()["services"]["triton"]
    assert "devices" in str(read("compose.gpu.yaml"))
