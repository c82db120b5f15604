"""Checks that two builds of an image have the same files, with the same owners, modes and times.

The second is from a copy of the sources, which are as new as the copy: as in another clone.
"""

import hashlib
import shutil
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

from deploy.compose.images import build_command, read_labels
from deploy.compose.rehearsal.engine import Engine
from deploy.local.errors import CommandFailed, LocalError
from deploy.local.settings import ROOT
from deploy.local.terminal import say

SERVICE = "notifier"  # the smallest
SOURCES = ("common", "console", "services", "deploy/compose")
BUILD_SECONDS = 900.0
# The engine makes these for each container.
OF_THE_ENGINE = {".dockerenv", "dev", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf", "proc", "sys"}
File = tuple[str, bytes, int, int, int, int, str]


def check_reproducible(engine: Engine, base: str) -> None:
    """Build an image twice, without the cache; raise LocalError if the files differ or a label is wrong."""
    labels = read_labels()
    names = [f"charonia-rehearsal/build-{number}" for number in (1, 2)]
    for name, context in zip(names, (ROOT, copy_sources(engine.directory / "copy")), strict=True):
        command = build_command(SERVICE, name, labels | {"BASE": base}, context)
        engine.docker(command[0], "--no-cache", "--network=host", "--quiet", *command[1:], timeout=BUILD_SECONDS)
    first, second = (list_files(engine, name) for name in names)
    different = sorted(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))
    if different:
        raise LocalError(f"two builds of {SERVICE} differ in {len(different)} files: {', '.join(different[:20])}")
    check_labels(engine, names[0], labels)
    for name in names:
        engine.docker("rmi", name)
    say(f"ok: two builds of {SERVICE} have the same {len(first)} files, with the same times")


def copy_sources(place: Path) -> Path:
    """Copy what the image is made of, without the times of the files; return the folder."""
    shutil.rmtree(place, ignore_errors=True)
    for folder in SOURCES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, place / folder, ignore=ignore, copy_function=shutil.copy)
    shutil.copy(ROOT / ".dockerignore", place)
    return place


def list_files(engine: Engine, image: str) -> dict[str, File]:
    """Return each file of an image by its path. Folders are left out, because copying into one changes its time."""
    container = engine.docker("create", image)
    try:
        with (
            subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE, env=engine.env) as export,
            tarfile.open(fileobj=export.stdout, mode="r|") as archive,
        ):
            found = {each.name: describe(archive, each) for each in archive if not each.isdir()}
        if export.returncode:
            raise CommandFailed(f"docker export ended with code {export.returncode}")
    finally:
        with suppress(LocalError):
            engine.docker("rm", container)
    return {path: file for path, file in found.items() if not {path, path.partition("/")[0]} & OF_THE_ENGINE}


def describe(archive: tarfile.TarFile, member: tarfile.TarInfo) -> File:
    content = archive.extractfile(member) if member.isreg() else None
    digest = hashlib.sha256(content.read() if content is not None else b"").hexdigest()
    return digest, member.type, member.mode, member.uid, member.gid, int(member.mtime), member.linkname


def check_labels(engine: Engine, image: str, labels: dict[str, str]) -> None:
    for label in ("version", "revision", "created"):
        form = f'{{{{index .Config.Labels "org.opencontainers.image.{label}"}}}}'
        if (found := engine.docker("image", "inspect", "-f", form, image)) != labels[label.upper()]:
            raise LocalError(f"{image} has the label {label}={found}, and not {labels[label.upper()]}")
