"""`python -m deploy.bundle` makes the archives in build/bundle, which install the whole stack without a network.

It needs Debian 12 on x86-64 and its package index, an index of Python packages, binutils, and some minutes.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import VERSION
from deploy.bundle import archives, binaries, debian, licences, wheels
from deploy.bundle.parts import MORE_SOURCES, OF_THE_SYSTEM, PACKAGES, RELEASE, SOURCES, TOOLS, assign, check_sizes
from deploy.local.errors import LocalError
from deploy.local.installation import MARKER, ROOT
from deploy.local.processes.command import run
from deploy.local.terminal import say

BUNDLE = ROOT / "build" / "bundle"
WORK = ROOT / "build" / "bundle-work"
HERE = Path(__file__).parent
CHECKSUMS = "SHA256SUMS"
LICENCES = "LICENSES"
INSTALLER = ("install", "installer.py")
PYTHON = "3.11"  # at least, to run the installer
AT_ONCE = 2  # archives


def main() -> int:
    argparse.ArgumentParser(prog="python -m deploy.bundle", description=__doc__).parse_args()
    began = time.monotonic()
    try:
        build()
    except (LocalError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    sizes = {file.name: file.stat().st_size for file in sorted(BUNDLE.iterdir())}
    for name, size in sizes.items():
        say(f"{size / 2**20:8.1f} MiB  {name}")
    say(f"{sum(sizes.values()) / 2**20:8.1f} MiB in {BUNDLE}, in {time.monotonic() - began:.0f} s.")
    return 0


def build() -> None:
    """Make the bundle anew; raise LocalError."""
    if platform.machine() != "x86_64":
        raise LocalError(f"the bundle is for x86_64, and this machine is {platform.machine()}")
    debian.require_release(RELEASE)
    for directory in (BUNDLE, WORK):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    tree = WORK / "tree"
    say("Getting Debian packages …")
    packages = _add_debian(tree)
    say("Getting Python packages …")
    wheels.make_environments(tree)
    add_sources(tree / "app")
    licences.write_list(BUNDLE / LICENCES, _list_parts(tree, packages))
    shutil.copy2(BUNDLE / LICENCES, tree / "app" / LICENCES)
    found = binaries.find_binaries(tree)
    binaries.check_libraries(tree, found)
    newer = {name: binaries.measure_glibc([tree / name]) for name in OF_THE_SYSTEM}
    left = {(tree / name).resolve() for name in newer}
    glibc = binaries.measure_glibc([path for path in found if path.resolve() not in left])
    say(f"Compressing; the programs need glibc {glibc} …")
    names = _write_archives(tree)
    _write_manifest(tree, glibc, newer, names)


def _add_debian(tree: Path) -> list[debian.Package]:
    files = debian.download([*PACKAGES, *TOOLS], WORK / "debs")
    debian.unpack(files, WORK / "debian")
    debian.copy_kept(WORK / "debian", tree)
    packages = [each for each in map(debian.describe, files) if each.name not in TOOLS]
    debian.copy_licences(WORK / "debian", tree, packages)
    debian.make_relocatable(tree)
    binaries.move_embedded(tree)
    binaries.set_search_paths(tree, WORK / "debian/usr/bin/patchelf")
    return packages


def add_sources(app: Path) -> None:
    """Copy the files and links of the repository that git knows, or would add."""
    listing = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--"]
    for name in filter(None, run([*listing, *SOURCES, *MORE_SOURCES], timeout=60).split("\0")):
        target = app / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def _list_parts(tree: Path, packages: Sequence[debian.Package]) -> dict[str, list[licences.Part]]:
    return {
        "Charonia itself, in app": [licences.describe_project(ROOT / "pyproject.toml")],
        "Debian packages": licences.describe_packages(tree, packages),
        "Python packages of the services": licences.describe_distributions(tree, "services"),
        "Triton, and Python packages of its models": licences.describe_distributions(tree, "triton"),
    }


def _write_archives(tree: Path) -> list[str]:
    paths = [path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_symlink() or path.is_file()]
    moment = int(run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], timeout=30))
    files = {f"charonia-{VERSION}-{name}.tar.xz": listed for name, listed in assign(paths).items()}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sizes = pool.map(lambda each: archives.write(BUNDLE / each[0], tree, each[1], moment), files.items())
        check_sizes(dict(zip(files, sizes, strict=True)))
    return list(files)


def _write_manifest(tree: Path, glibc: str, newer: Mapping[str, str], names: Sequence[str]) -> None:
    commit = run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], timeout=30).strip()
    unpacked = sum(path.lstat().st_size for path in tree.rglob("*") if not path.is_dir())
    manifest = {
        "version": VERSION,
        "commit": commit,
        "machine": "x86_64",
        "glibc": glibc,
        "libraries_with_newer_glibc": newer,
        "python": PYTHON,
        "unpacked_bytes": unpacked,
        "archives": names,
    }
    (BUNDLE / MARKER).write_text(json.dumps(manifest, indent=2) + "\n")
    for name in INSTALLER:
        shutil.copy2(HERE / name, BUNDLE / name)
    lines = [f"{archives.hash_file(file)}  {file.name}\n" for file in sorted(BUNDLE.iterdir())]
    (BUNDLE / CHECKSUMS).write_text("".join(lines))


if __name__ == "__main__":
    os.nice(10)  # it takes all cores for minutes
    sys.exit(main())
