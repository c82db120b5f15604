"""What programs need, as readelf shows it."""

import sys
from pathlib import Path

import pytest

from deploy.bundle import binaries
from deploy.local.errors import LocalError

PROGRAM = Path(sys.executable).resolve()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/program").write_bytes(PROGRAM.read_bytes())
    (tmp_path / "bin/link").symlink_to("program")
    (tmp_path / "bin/script").write_text("#!/bin/sh\n")
    return tmp_path


def test_links_and_scripts_are_no_binaries(tree: Path) -> None:
    assert binaries.find_binaries(tree) == [tree / "bin/program"]


def test_missing_libraries_are_named_until_they_are_there(tree: Path) -> None:
    found = binaries.find_binaries(tree) * 2  # readelf prints names only for several files
    with pytest.raises(LocalError, match=r"lacks libraries: .*libz\.so\.1 \(for bin/program\)") as failed:
        binaries.check_libraries(tree, found)
    assert "libc.so.6" not in str(failed.value)
    for part in str(failed.value).removeprefix("the bundle lacks libraries: ").split(";")[0].split(", "):
        (tree / part.split(" ")[0]).touch()
    binaries.check_libraries(tree, found)


def test_glibc_is_the_newest_version_that_is_needed(tree: Path) -> None:
    major, minor = map(int, binaries.measure_glibc(binaries.find_binaries(tree)).split("."))
    assert (2, 2) < (major, minor) < (3, 0)
