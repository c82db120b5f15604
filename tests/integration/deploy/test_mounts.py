"""What the rehearsal's Docker engine mounted is unmounted."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.compose.rehearsal.engine import Engine
from deploy.compose.rehearsal.mounts import MOUNTS, list_mounts


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A network namespace, mounted as an engine does."""
    point = tmp_path / "exec" / "netns" / "default"
    point.parent.mkdir(parents=True)
    point.touch()
    subprocess.run(["mount", "--bind", "/proc/self/ns/net", point], check=True)
    yield point
    if list_mounts(point, MOUNTS.read_text()):
        subprocess.run(["umount", "--lazy", point], check=True)


def test_an_engine_leaves_nothing_mounted(tmp_path: Path, mounted: Path) -> None:
    assert list_mounts(tmp_path, MOUNTS.read_text()) == [mounted]
    Engine(tmp_path).stop()
    assert list_mounts(tmp_path, MOUNTS.read_text()) == []
