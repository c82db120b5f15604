"""What is taken from Debian packages that are unpacked."""

from pathlib import Path

import pytest

from deploy.bundle.debian import Package, copy_licences, require_release
from deploy.local.errors import LocalError


def test_a_licence_may_be_that_of_another_package(tmp_path: Path) -> None:
    documents = tmp_path / "debian/usr/share/doc"
    (documents / "gcc-12-base").mkdir(parents=True)
    (documents / "gcc-12-base/copyright").write_text("GPL")
    (documents / "libstdc++6").symlink_to("gcc-12-base")
    copy_licences(tmp_path / "debian", tmp_path / "tree", [Package("libstdc++6", "12", "gcc-12 12")])
    assert (tmp_path / "tree/usr/share/doc/libstdc++6/copyright").read_text() == "GPL"


def test_a_package_without_a_licence_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"^libz has no usr/share/doc/libz/copyright: add the package"):
        copy_licences(tmp_path, tmp_path / "tree", [Package("libz", "1", "zlib 1")])


def test_another_release_is_refused() -> None:
    with pytest.raises(LocalError, match="the bundle has programs of Debian nowhere: build it there"):
        require_release("nowhere")
