"""Programs and libraries in the ELF format: what they need, and where they look for libraries."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.bundle.parts import EMBEDDED
from deploy.local.errors import LocalError
from deploy.local.processes.command import run

MAGIC = b"\x7fELF"
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
EMBEDDED_LIBRARIES = Path("usr/lib")
# What the bundle does not bring: glibc, and the newer Python of models that run with another one.
OUTSIDE = re.compile(r"^(ld-linux-x86-64|lib(anl|c|dl|m|pthread|resolv|rt|util))\.so\.\d$|^libpython3\.12\.so")
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
VERSION = re.compile(r"Name: GLIBC_(\d+)\.(\d+)")
AT_A_TIME = 100  # files for one call of readelf


def find_binaries(tree: Path) -> list[Path]:
    """Return all programs and libraries, without links to them."""
    found = []
    for folder, _, names in os.walk(tree):
        paths = [Path(folder, name) for name in names]
        found += [path for path in paths if not path.is_symlink() and _is_binary(path)]
    return sorted(found)


def move_embedded(tree: Path) -> None:
    """Move the libraries that programs with an embedded Python need into a folder of their own."""
    for name in EMBEDDED:
        path = tree / LIBRARIES / name
        path.resolve().rename(tree / EMBEDDED_LIBRARIES / name)
        path.unlink(missing_ok=True)  # a link is left


def set_search_paths(tree: Path, patchelf: Path) -> None:
    """Let the programs of Debian find their libraries in the tree, wherever it is."""
    for path in find_binaries(tree / "usr"):
        folders = [os.path.relpath(tree / place, path.parent) for place in (LIBRARIES, EMBEDDED_LIBRARIES)]
        search = ":".join(f"$ORIGIN/{folder}" for folder in folders)
        # RPATH and not RUNPATH: it also holds for the libraries of Python's packages.
        run([str(patchelf), "--force-rpath", "--set-rpath", search, str(path)], timeout=60)


def check_libraries(tree: Path, binaries: Sequence[Path]) -> None:
    """Raise LocalError, which names them, if libraries are neither in the tree nor of the system."""
    present = {name for _, _, names in os.walk(tree) for name in names}
    wanted: dict[str, str] = {}
    for path, text in _read(binaries, "--dynamic"):
        for name in NEEDED.findall(text):
            if name not in present and not OUTSIDE.match(name):
                wanted.setdefault(name, str(path.relative_to(tree)))
    if wanted:
        listed = ", ".join(f"{name} (for {path})" for name, path in sorted(wanted.items()))
        raise LocalError(f"the bundle lacks libraries: {listed}; add their packages in deploy/bundle/parts.py")


def measure_glibc(binaries: Sequence[Path]) -> str:
    """Return the oldest version of glibc that has everything that these binaries need."""
    texts = "".join(text for _, text in _read(binaries, "--version-info"))
    major, minor = max((int(major), int(minor)) for major, minor in VERSION.findall(texts))
    return f"{major}.{minor}"


def _read(binaries: Sequence[Path], option: str) -> Iterable[tuple[Path, str]]:
    """Return what readelf prints of each file."""
    for start in range(0, len(binaries), AT_A_TIME):
        chunk = binaries[start : start + AT_A_TIME]
        printed = run(["readelf", "--wide", option, *map(str, chunk)], timeout=120)
        texts = printed.split("\nFile: ") if len(chunk) > 1 else ["", printed]
        yield from zip(chunk, texts[1:], strict=True)


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == MAGIC
