"""The compose stack: valid, with every variable that a service needs, and images that hold nothing else."""

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import msgspec
import pytest

from common.postgres.roles import ROLES, parse_passwords
from common.settings import PREFIX, Settings
from deploy.compose import s3, triton
from deploy.compose.rehearsal.images import normalise
from deploy.local.servers.model_control import KEY_HEADER
from deploy.local.servers.triton import RESTRICTED
from deploy.local.settings import ROOT
from services.dispatcher.settings import DispatcherSettings
from services.gateway.commands.keys import parse
from services.gateway.settings import GatewaySettings
from services.notifier.settings import NotifierSettings
from tests.unit.deploy.compose.compose_files import COMPOSE, fill_in, read

FILES = ("compose.yaml", "compose.gpu.yaml", "compose.production.yaml", "rehearsal/compose.yaml")
SERVICES: dict[str, type[Settings]] = {
    "gateway": GatewaySettings,
    "dispatcher": DispatcherSettings,
    "notifier": NotifierSettings,
}
OF_THE_IMAGE = set(re.findall(r"\b(CHARONIA_[A-Z_]+)=", (COMPOSE / "Dockerfile").read_text()))
USED_IF_PRESENT = {"annotated-types", "brotli", "pygments", "rich", "setuptools"}  # by other packages
PIN = re.compile(r"^([a-z0-9.-]+)==")


def name_variables(service: str, *, required: bool = False) -> set[str]:
    """What its settings read from the environment."""
    fields = msgspec.structs.fields(SERVICES[service])
    return {PREFIX + field.name.upper() for field in fields if field.required or not required}


def read_lock(file: Path) -> dict[str, str]:
    """Each requirement, hashes included, by name."""
    joined = file.read_text().replace("\\\n", "")
    return {found[1]: line for line in joined.splitlines() if (found := PIN.match(line))}


def test_each_file_is_what_the_compose_specification_says(tmp_path: Path) -> None:
    copies = [tmp_path / f"{file.replace('/', '-')}.json" for file in FILES]
    for file, copy in zip(FILES, copies, strict=True):
        copy.write_bytes(msgspec.json.encode(read(file)))
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *map(str, copies)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_gets_the_variables_that_it_reads_and_no_others(service: str) -> None:
    given = read()["services"][service]["environment"].keys() | OF_THE_IMAGE
    assert name_variables(service, required=True) <= given
    assert {name for name in given if name.startswith(PREFIX)} <= name_variables(service)


def test_the_origins_of_pages_are_passed_on() -> None:
    name = f"{PREFIX}CORS_ORIGINS"
    assert read()["services"]["gateway"]["environment"][name] == f"${{{name}:-}}"


def test_gateway_dispatcher_and_operators_use_the_s3_server() -> None:
    services = read()["services"]
    environments = {name: service.get("environment", {}) for name, service in services.items()}
    using = {name for name, found in environments.items() if f"{PREFIX}STORE_URL" in found}
    assert using == {"gateway", "dispatcher", "operator"}
    for name in using:
        found = {key: fill_in(str(value)) for key, value in environments[name].items()}
        assert (found[f"{PREFIX}STORE_URL"], found["AWS_ENDPOINT_URL"]) == (f"s3://{s3.BUCKET}", "http://s3:8333")
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert environments[name][key] == environments["s3"][key]
    assert fill_in(services["s3"]["ports"][0]) == "127.0.0.1:8333:8333"
    public = fill_in(environments["gateway"][f"{PREFIX}STORE_PUBLIC_ENDPOINT"])
    assert public == "http://localhost:8333"


def test_the_s3_server_may_write_its_volume_and_shows_only_s3() -> None:
    dockerfile = (COMPOSE / "s3.Dockerfile").read_text()
    (owner,) = re.findall(
        r"^USER (\d+):", dockerfile, re.MULTILINE
    )  # a new volume gets the owner of the image's folder
    assert re.search(rf"^RUN install -d -o {owner} -g {owner} -m 0700 /data$", dockerfile, re.MULTILINE)
    assert read()["services"]["s3"]["volumes"] == ["s3:/data"]
    assert {"-ip.bind=127.0.0.1", "-s3.ip.bind=0.0.0.0", "-dir=/data", "-master.telemetry=false"} <= {*s3.SERVER}


def test_a_service_gets_only_the_keys_that_it_uses() -> None:
    keys = {f"{PREFIX}ENCRYPTION_KEYS", f"{PREFIX}URL_KEYS"}
    given = {name: keys & service.get("environment", {}).keys() for name, service in read()["services"].items()}
    assert {name: found for name, found in given.items() if found} == {
        "gateway": keys,
        "dispatcher": {f"{PREFIX}URL_KEYS"},
        "notifier": {f"{PREFIX}ENCRYPTION_KEYS"},
        "operator": {f"{PREFIX}ENCRYPTION_KEYS"},
    }


def test_each_service_logs_in_as_its_own_role() -> None:
    environments = {name: service.get("environment", {}) for name, service in read()["services"].items()}
    urls = {name: found for name, env in environments.items() if (found := env.get(f"{PREFIX}DATABASE_URL"))}
    assert {name: re.findall(r"//(\w+):", url)[0] for name, url in urls.items()} == {
        "migrate": "charonia",
        **{role: f"charonia_{role}" for role in ROLES},
    }
    secrets = {name: re.findall(r"\$\{(\w+):", url)[0] for name, url in urls.items()}
    assert len(set(secrets.values())) == len(secrets)
    given = parse_passwords(environments["migrate"][f"{PREFIX}ROLE_PASSWORDS"].replace(" ", "").split(","))
    assert {role: secrets[role] in value for role, value in given.items()} == dict.fromkeys(ROLES, True)


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_holds_what_its_service_needs_as_it_is_locked(service: str) -> None:
    lock = read_lock(COMPOSE / "requirements" / f"{service}.txt")
    whole = read_lock(ROOT / "requirements.txt")
    assert {name: whole.get(name) for name in lock} == lock
    assert {"asyncpg", "msgspec", "aio-pika"} <= lock.keys()
    assert not lock.keys() & {"pytest", "mypy", "ruff", "hypothesis", "schemathesis", "setuptools"}
    assert ("litestar" in lock, "tritonclient" in lock, "aiohttp" in lock) == (
        service == "gateway",
        service == "dispatcher",
        service != "gateway",
    )


@pytest.fixture(scope="module")
def owners() -> Mapping[str, list[str]]:
    """The distributions that have each module."""
    return metadata.packages_distributions()


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_holds_what_its_service_imports(service: str, owners: Mapping[str, list[str]]) -> None:
    """A distribution that the lock lacks is one that others import if they find it, or the service would not start."""
    code = f"import sys, services.{service}.__main__; print(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    modules = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    imported = {name for module in modules if "." not in module for name in owners.get(module, ())}
    missing = {normalise(name) for name in imported} - read_lock(COMPOSE / "requirements" / f"{service}.txt").keys()
    assert missing <= USED_IF_PRESENT


def test_what_is_mounted_is_there() -> None:
    for service in read()["services"].values():
        for volume in service.get("volumes", []):
            source = volume["source"] if isinstance(volume, dict) else fill_in(volume).partition(":")[0]
            place = fill_in(source)
            assert (COMPOSE / place).exists() if place.startswith((".", "/")) else place in read()["volumes"], volume


def test_no_address_of_an_index_is_in_a_lock() -> None:
    for service in (*SERVICES, "s3"):
        assert "://" not in (COMPOSE / "requirements" / f"{service}.txt").read_text()


def test_a_broken_model_does_not_keep_triton_from_being_ready() -> None:
    command = read("compose.gpu.yaml")["services"]["triton"]["command"]
    assert {"--exit-on-error=false", "--strict-readiness=false"} <= set(command)


def test_dispatcher_and_triton_share_a_key_and_no_other_service_has_it() -> None:
    name = f"{PREFIX}TRITON_REPOSITORY_KEY"
    with_it = {key: service for key, service in read()["services"].items() if name in str(service)}
    assert with_it.keys() == {"dispatcher", "triton"}
    (value,) = {service["environment"][name] for service in with_it.values()}
    command = read("compose.gpu.yaml")["services"]["triton"]["command"]
    restricted = f"{RESTRICTED}:{KEY_HEADER}={value}"
    assert {f"--http-restricted-api={restricted}", f"--grpc-restricted-protocol={restricted}"} <= set(command)


def test_the_cpu_triton_does_not_start_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(triton.KEY, raising=False)
    with pytest.raises(SystemExit, match="CHARONIA_TRITON_REPOSITORY_KEY is not set: set it to the same secret as"):
        triton.main()


def test_the_guides_line_makes_a_key() -> None:
    guide = (ROOT / "docs" / "how-to" / "tenants-and-keys.md").read_text()
    (line,) = (line for line in guide.splitlines() if line.startswith("docker compose run") and " create " in line)
    command, _, arguments = line.partition(" python -m services.gateway.commands.keys ")
    assert command == "docker compose run --rm operator"
    parsed = parse(shlex.split(arguments))
    assert (parsed.tenant, parsed.scope) == ("acme", ["submit", "read"])
