"""A model that Triton cannot load stops no other model, and its reason is known."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from deploy.local import model_control
from deploy.local.ports import free_ports
from deploy.local.settings import Settings
from deploy.local.triton import Triton as Server
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.unloaded import LOADING, NOT_LOADED
from tests.integration.dispatcher.inference import LIMIT
from tests.integration.waiting import until

ECHO = Settings().model_repository / "echo"


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


async def test_broken_models_stop_no_other_and_have_reasons(server: Server, repository: Path) -> None:
    code = (ECHO / "1" / "model.py").read_text()
    add_model(repository, "torchy", f"import torch_of_nobody\n{code}")
    add_model(repository, "typo", code, 'name: "typo" backend: python')
    add_model(repository, "unsupported", None, 'name: "unsupported" backend: "onnxruntime"')
    add_model(repository, "without_code", None)  # Triton waits for its process without end
    began = time.monotonic()
    server.start()
    assert time.monotonic() - began < server.ready_within
    client = TritonClient(server.grpc_address, LIMIT)
    assert await client.list_ready() == {("echo", "1")}
    reasons = {name: reason for (name, _), reason in client.unloaded.items()}
    assert "No module named 'torch_of_nobody'" in reasons.pop("torchy")
    assert "unable to find backend library for backend 'onnxruntime'" in reasons.pop("unsupported")
    assert reasons == {"typo": NOT_LOADED, "without_code": LOADING}
    problems = server.models.find_problems()
    assert problems.keys() == {"torchy", "typo", "unsupported", "without_code"}
    assert problems["torchy"] == "Internal: ModuleNotFoundError: No module named 'torch_of_nobody'"

    (repository / "torchy" / "1" / "model.py").write_text(code)  # repaired
    server.models.load("torchy")
    assert await client.list_ready() == {("echo", "1"), ("torchy", "1")}
    await client.close()


async def test_a_link_that_leads_nowhere_takes_no_model_away(
    server: Server, repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.start()
    client = TritonClient(server.grpc_address, LIMIT)
    lock = repository / ".#config.pbtxt"  # as Emacs locks a file
    lock.symlink_to("someone@host")
    for _ in range(2):
        assert await client.list_ready() == {("echo", "1")}
    assert caplog.messages == ["repository.unreadable"]
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
        client = TritonClient(server.grpc_address, LIMIT)

        async def poll() -> bool:
            return await client.list_ready() == {("echo", "1")} and ("torchy", "1") in client.unloaded

        await until(poll, "only echo runs")
        await client.close()
    finally:
        server.kill()
