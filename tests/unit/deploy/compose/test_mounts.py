"""The mounts of the rehearsal's Docker engine are found in the table of mounts."""

from pathlib import Path

from deploy.compose.rehearsal.mounts import list_mounts

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
