"""Writes archives: the same files always give the same bytes."""

import hashlib
import lzma
import tarfile
from collections.abc import Sequence
from pathlib import Path

DICTIONARY = 64 * 1024 * 1024  # bytes; as much memory is needed to unpack
FILTERS = [
    {"id": lzma.FILTER_X86},  # half the archives are programs
    {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": DICTIONARY},
]


def write(archive: Path, tree: Path, paths: Sequence[str], time: int) -> int:
    """Pack files of a tree, all with the same time; return the size of the archive."""
    with (
        lzma.open(archive, "wb", check=lzma.CHECK_CRC64, filters=FILTERS) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in paths:
            tar.add(tree / path, path, recursive=False, filter=lambda member: _make_equal(member, time))
    return archive.stat().st_size


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_equal(member: tarfile.TarInfo, time: int) -> tarfile.TarInfo:
    member.mtime = time
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member
