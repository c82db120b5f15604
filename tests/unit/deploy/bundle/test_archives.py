"""Archives have the same bytes for the same files."""

import os
import tarfile
from pathlib import Path

from deploy.bundle.archives import hash_file, write

PATHS = ["a.txt", "folder/link", "folder/program"]
MOMENT = 1_700_000_000


def make_tree(root: Path, time: int) -> Path:
    (root / "folder").mkdir(parents=True)
    (root / "a.txt").write_text("text")
    (root / "folder/program").write_text("#!/bin/sh\n")
    (root / "folder/program").chmod(0o750)
    (root / "folder/link").symlink_to("program")
    os.utime(root / "a.txt", (time, time))
    return root


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path / f"{number}.tar.xz", make_tree(tmp_path / str(number), number), PATHS, MOMENT)
    assert hash_file(tmp_path / "1.tar.xz") == hash_file(tmp_path / "2.tar.xz")


def test_members_have_no_owner_and_no_other_time(tmp_path: Path) -> None:
    archive = tmp_path / "1.tar.xz"
    size = write(archive, make_tree(tmp_path / "tree", 5), PATHS, MOMENT)
    assert size == archive.stat().st_size
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == PATHS
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "", MOMENT)}
    assert [oct(member.mode) for member in members if member.isfile()] == ["0o644", "0o755"]
    assert members[1].linkname == "program"
