"""A model that Triton cannot load stops no other model, and its reason is known."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest

from deploy.local.processes.ports import free_ports
from deploy.local.servers import model_control
from deploy.local.servers.triton import Triton as Server
from deploy.local.settings import Settings
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.unloaded import LOADING, NOT_LOADED
from tests.integration.dispatcher.inference import connect
from tests.integration.waiting import until

ECHO = Settings().model_repository / "echo"
LOAD_SECONDS = 60.0

pytestmark = pytest.mark.triton  # these tests start servers of their own


def add_model(repository: Path, name: str, code: str | None, config: str | None = None) -> None:
    """Add a copy of echo with this code and this configuration."""
    (repository / name / "1").mkdir(parents=True)
    if config is None:
        config = (ECHO / "config.pbtxt").read_text().replace('"echo"', f'"{name}"')
    (repository / name / "config.pbtxt").write_text(config)
    if code is not None:
        (repository / name / "1" / "model.py").write_text(code)


def make_server(directory: Path, repository: Path, model_control: Literal["none", "explicit"]) -> Server:
    grpc_port, http_port, metrics_port = free_ports(3)
    return Server(
        *(directory, repository, grpc_port, http_port, metrics_port, Settings().triton_venv),
        model_control=model_control,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    found = tmp_path / "models"
    found.mkdir()
    (found / "echo").symlink_to(ECHO)
    return found


@pytest.fixture
def server(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that loads its models in explicit mode, as `make up` does."""
    monkeypatch.setattr(model_control, "QUIET_SECONDS", 3.0)
    found = make_server(tmp_path, repository, "explicit")
    yield found
    found.kill()


async def until_loaded(client: TritonClient, expected: Mapping[str, str]) -> None:
    """Return when only echo runs, and the reasons of the others begin as expected.

    Loads that take long go on after the start. On a busy machine these are all of them.
    """
    seen: object = None

    async def poll() -> bool:
        nonlocal seen
        ready = await client.list_ready()
        reasons = {name: reason for (name, _), reason in client.unloaded.items()}
        seen = ready, reasons
        begins = [reasons.get(name, "").startswith(begin) for name, begin in expected.items()]
        return ready == {("echo", "1")} and reasons.keys() == expected.keys() and all(begins)

    try:
        await until(poll, f"only echo runs, and of the others: {expected}", LOAD_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}; it was {seen}") from None


async def test_broken_models_stop_no_other_and_have_reasons(server: Server, repository: Path) -> None:
    code = (ECHO / "1" / "model.py").read_text()
    add_model(repository, "torchy", f"import torch_of_nobody\n{code}")
    add_model(repository, "typo", code, 'name: "typo" backend: python')
    add_model(repository, "unsupported", None, 'name: "unsupported" backend: "onnxruntime"')
    add_model(repository, "without_code", None)  # Triton waits for its process without end
    began = time.monotonic()
    server.start()
    assert time.monotonic() - began < server.ready_within
    client = connect(server)
    failed = "Triton could not load it"
    await until_loaded(client, {"torchy": failed, "typo": NOT_LOADED, "unsupported": failed, "without_code": LOADING})
    reasons = {name: reason for (name, _), reason in client.unloaded.items()}
    assert "No module named 'torch_of_nobody'" in reasons.pop("torchy")
    assert "unable to find backend library for backend 'onnxruntime'" in reasons.pop("unsupported")
    assert reasons == {"typo": NOT_LOADED, "without_code": LOADING}
    problems = server.models.find_problems()
    assert problems.keys() == {"torchy", "typo", "unsupported", "without_code"}
    assert problems["torchy"] == "Internal: ModuleNotFoundError: No module named 'torch_of_nobody'"

    (repository / "torchy" / "1" / "model.py").write_text(code)  # repaired
    server.models.load("torchy", LOAD_SECONDS)
    assert await client.list_ready() == {("echo", "1"), ("torchy", "1")}
    await client.close()


async def test_a_link_that_leads_nowhere_takes_no_model_away(
    server: Server, repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.start()
    client = connect(server)
    await until_loaded(client, {})
    lock = repository / ".#config.pbtxt"  # as Emacs locks a file
    lock.symlink_to("someone@host")
    for _ in range(2):
        assert await client.list_ready() == {("echo", "1")}
    assert [each.message for each in caplog.records if each.name == "charonia.triton"] == ["repository.unreadable"]
    lock.unlink()
    add_model(repository, "typo", None, "name:")
    assert await client.list_ready() == {("echo", "1")}
    assert ("typo", "") in client.unloaded
    await client.close()


async def test_without_model_control_a_broken_model_stops_no_other_either(tmp_path: Path, repository: Path) -> None:
    add_model(repository, "torchy", "import torch_of_nobody\n")
    server = make_server(tmp_path, repository, "none")
    try:
        server.start()
        client = connect(server)

        await until_loaded(client, {"torchy": ""})
        await client.close()
    finally:
        server.kill()
