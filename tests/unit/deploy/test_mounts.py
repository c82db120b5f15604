"""What the rehearsal's Docker engine mounted is unmounted."""

import os
import subprocess
from pathlib import Path

import pytest

from deploy.compose.rehearsal.engine import Engine
from deploy.compose.rehearsal.mounts import MOUNTS, list_mounts

TABLE = """\
proc /proc proc rw 0 0
nsfs /a/compose/exec/netns/default nsfs rw 0 0
overlay /a/compose/data\\040two/merged overlay rw 0 0
overlay /a/compose/data\\040two/merged/dev/shm overlay rw 0 0
nsfs /a/compose-other/x nsfs rw 0 0
"""


def test_mounts_below_the_folder_are_found_the_deepest_first() -> None:
    assert list(map(str, list_mounts(Path("/a/compose"), TABLE))) == [
        "/a/compose/data two/merged/dev/shm",
        "/a/compose/exec/netns/default",
        "/a/compose/data two/merged",
    ]


def mount_namespace(file: Path) -> bool:
    """Mount a network namespace, as an engine does. Return whether this process may."""
    file.parent.mkdir(parents=True)
    file.touch()
    return (
        subprocess.run(["mount", "--bind", "/proc/self/ns/net", file], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_an_engine_leaves_nothing_mounted(tmp_path: Path) -> None:
    if not mount_namespace(tmp_path / "exec" / "netns" / "default"):
        pytest.skip("this machine lets nobody mount")
    assert list_mounts(tmp_path, MOUNTS.read_text()) != []
    Engine(tmp_path).stop()
    assert list_mounts(tmp_path, MOUNTS.read_text()) == []
