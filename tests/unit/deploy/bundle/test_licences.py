"""The list of parts with their licences."""

from pathlib import Path

from common import VERSION
from deploy.bundle.__main__ import _list_parts
from deploy.bundle.debian import Package
from deploy.bundle.licences import (
    Part,
    describe_distributions,
    describe_packages,
    write_list,
)
from deploy.bundle.wheels import SITE


def add_distribution(tree: Path, name: str, metadata: str, *files: str) -> None:
    folder = tree / "services" / SITE / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}")
    (folder / "RECORD").write_text("".join(f"{folder.name}/{file},,\n" for file in ("METADATA", *files)))


def test_python_packages_with_their_licences(tmp_path: Path) -> None:
    add_distribution(tmp_path, "a", "License-Expression: MIT\n", "licenses/LICENSE", "licenses/AUTHORS")
    add_distribution(tmp_path, "b", "Classifier: License :: OSI Approved :: BSD License\n")
    add_distribution(tmp_path, "c", "License: Apache 2\n  and its text\n", "LICENSE.txt")
    prefix = f"services/{SITE}"
    found = describe_distributions(tmp_path, "services")
    assert [(part.name, part.version, part.licence) for part in found] == [
        ("a", "1.0", "MIT"),
        ("b", "1.0", "BSD License"),
        ("c", "1.0", "Apache 2"),
    ]
    assert found[0].texts == (
        f"{prefix}/a-1.0.dist-info/licenses/AUTHORS",
        f"{prefix}/a-1.0.dist-info/licenses/LICENSE",
    )
    assert found[1].texts == (f"{prefix}/b-1.0.dist-info/METADATA",)
    assert found[2].texts == (f"{prefix}/c-1.0.dist-info/LICENSE.txt",)


def test_debian_packages_with_their_sources(tmp_path: Path) -> None:
    copyright_file = tmp_path / "usr/share/doc/libz/copyright"
    copyright_file.parent.mkdir(parents=True)
    copyright_file.write_text("Files: *\nLicense: Zlib\n text\n\nFiles: debian/*\nLicense: GPL-2+\n")
    parts = describe_packages(tmp_path, [Package("libz", "1.2", "zlib 1.2")])
    write_list(tmp_path / "list", {"Debian packages": parts})
    lines = (tmp_path / "list").read_text().splitlines()
    assert lines[-3:] == ["libz 1.2 (zlib 1.2)", "    GPL-2+; Zlib", "    usr/share/doc/libz/copyright"]
    assert "Debian packages" in lines


def test_charonia_itself_is_in_the_list(tmp_path: Path) -> None:
    first, *_ = _list_parts(tmp_path, []).values()
    assert first == [Part("Charonia", VERSION, "Apache-2.0", ("app/LICENSE",))]
