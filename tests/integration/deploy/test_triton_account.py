"""Triton runs as an account that is not root's. It reads what it needs, also in a folder that is closed to others."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.errors import InvalidSetting, NotReady
from deploy.local.processes.ports import free_ports
from deploy.local.servers.account import NumberedAccount
from deploy.local.servers.shown_folders import check_readable, show_folders
from deploy.local.servers.triton import Triton
from deploy.local.settings import Settings
from tests.conftest import running
from tests.integration.dispatcher.inference import connect, integer, run

DEFAULTS = Settings()
SLEPT = integer("ms", 1, (1, 1))
# Writes in its home, and in the folder it runs in, as models that download their weights do.
WRITES = """
import os, pathlib
pathlib.Path.home().joinpath("cache").write_text("")
pathlib.Path("weights").write_text("")
"""

IS_ROOT = os.geteuid() == 0  # others run Triton as themselves, who can read their files


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A folder that only its owner can enter, such as /root."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def repository(closed: Path) -> Path:
    """Models in that folder, one of them by a link to another place in it."""
    models = closed / "clone" / "models"
    shutil.copytree(DEFAULTS.model_repository / "work", closed / "elsewhere" / "work")
    models.mkdir(parents=True)
    (models / "work").symlink_to(closed / "elsewhere" / "work")
    return models


def make_server(directory: Path, repository: Path) -> Triton:
    grpc, http, metrics = free_ports(3)
    return Triton(directory, repository, grpc, http, metrics, DEFAULTS.triton_venv, model_control="explicit")


@pytest.fixture
def server(closed: Path, repository: Path) -> Iterator[Triton]:
    found = make_server(closed / "clone" / "stack", repository)
    with running(found):
        yield found


def add_model(repository: Path, name: str, code: str = "") -> Path:
    """Add a copy of the model `work` with more code at its start."""
    shutil.copytree(DEFAULTS.model_repository / "work", repository / name)
    configuration, program = repository / name / "config.pbtxt", repository / name / "1" / "model.py"
    configuration.write_text(configuration.read_text().replace('"work"', f'"{name}"'))
    program.write_text(code + program.read_text())
    return program


@pytest.mark.triton
async def test_models_run_below_a_folder_that_is_closed(server: Triton, repository: Path) -> None:
    add_model(repository, "fresh", WRITES)  # while it runs
    await asyncio.to_thread(server.models.load, "fresh")
    client = connect(server)
    try:
        for model in ("work", "fresh"):
            assert (await run(client, model, SLEPT)).version == "1"
    finally:
        await client.close()


@pytest.mark.triton
def test_a_file_that_cannot_be_read_is_named(server: Triton, repository: Path) -> None:
    program = add_model(repository, "secret")
    program.parent.parent.joinpath("config.pbtxt").chmod(0o600)
    if not IS_ROOT:
        server.models.load("secret")
        assert server.find_problems() == {}
        return
    with pytest.raises(NotReady) as caught:
        server.models.load("secret")
    named = f"other users cannot read {repository}/secret/config.pbtxt; run: chmod -R o+rX {repository}/secret/config"
    assert named in server.explain("secret", str(caught.value))
    assert named in server.find_problems()["secret"]


@pytest.mark.triton
def test_nothing_else_in_the_closed_folder_is_shown(closed: Path, server: Triton) -> None:
    (closed / "clone" / "key").write_text("secret")
    seen = Path(f"/proc/{server.process.pid}/root{closed}")
    if not IS_ROOT:
        assert server.process.wrapper == ()
        return
    assert {each.name for each in seen.iterdir()} == {"clone", "elsewhere"}
    assert {each.name for each in (seen / "clone").iterdir()} == {"models", "stack"}
    assert {each.name for each in (seen / "clone" / "stack").iterdir()} == {"triton", "triton-home"}


def test_a_repository_that_cannot_be_read_is_named_before_the_start(closed: Path, repository: Path) -> None:
    repository.chmod(0o700)
    server = make_server(closed / "stack", repository)
    if not IS_ROOT:
        assert NumberedAccount.for_triton().options == []
        return
    with pytest.raises(InvalidSetting, match=f"cannot read {repository}; run: chmod -R o\\+rX {repository}$"):
        server.start()
    assert server.process.pid is None


def test_without_mounts_the_closed_folder_is_named(closed: Path, repository: Path) -> None:
    account = NumberedAccount.for_triton()
    if not IS_ROOT:
        assert account.options == []
        return
    shown = show_folders([repository], closed, closed / "stages")
    assert shown[0] == "unshare"
    with pytest.raises(InvalidSetting, match=r" is closed to other users.* such as /opt or /srv, or run: chmod o\+x "):
        check_readable([repository], account, ["false", *shown])
    check_readable([DEFAULTS.model_repository], account, show_folders([], closed, closed / "stages"))
