"""Installs Charonia from the archives beside this file, without a network.

It needs Python 3.11 or newer, with its standard library only, and takes about half a minute.
"""

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROC = Path("/proc")
MANIFEST = "bundle.json"
CHECKSUMS = "SHA256SUMS"
MARKER = ".charonia-installation"  # in a folder whose programs may be replaced
PROGRAMS = ("app", "services", "triton", "usr")  # folders; a second installation replaces them, and keeps `data`
COMMANDS = ("bench", "charonia", "demo", "key", "reload", "up")
KEYS = ("machine", "glibc", "libraries_with_newer_glibc", "unpacked_bytes", "archives")  # of the manifest
TRY_PYTHON = "import ctypes, pyexpat, sqlite3, ssl; ctypes.CDLL('libstdc++.so.6')"
TRY_SECONDS = 60.0
SPARE_BYTES = 500_000_000  # for the data of a new stack
AT_ONCE = 4  # archives that are unpacked; each needs 64 MiB
USABLE = re.compile(r"[A-Za-z0-9/._+,=@~%#-]+")  # paths
CLOSED = "the servers run as another user, who cannot enter it"


class InstallError(Exception):
    """The installation is not possible; the message says why, and what to do."""


def main() -> int:
    options = parse()
    began = time.monotonic()
    try:
        install(options.directory)
    except InstallError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    directory = options.directory.resolve()
    sys.stdout.write(f"Installed in {directory} in {time.monotonic() - began:.1f} s. Next: {directory}/up\n")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="install", description=__doc__)
    parser.add_argument("directory", type=Path, help="the folder to install in; an installation there is replaced")
    return parser.parse_args()


def install(directory: Path) -> None:
    """Install, or replace the programs of an installation; raise InstallError."""
    manifest = read_manifest(HERE)
    check_platform(manifest, platform.system(), platform.machine(), find_glibc())
    check_programs()
    try:
        target = directory.resolve()
        check_target(target, os.geteuid() == 0)
        check_may_execute(target)
        check_not_running(target)
        check_archives(HERE, (MANIFEST, "installer.py", *manifest["archives"]))
        os.umask(0o022)  # servers that run as another user read the programs
        target.mkdir(parents=True, exist_ok=True)
        check_space(target, manifest["unpacked_bytes"] + SPARE_BYTES)
        (target / MARKER).touch()
        _remove_programs(target)
        if target != HERE:
            shutil.copyfile(HERE / MANIFEST, target / MANIFEST)
        _unpack([HERE / name for name in manifest["archives"]], target)
        for name in find_unusable(manifest["libraries_with_newer_glibc"], find_glibc()):
            (target / name).unlink()
        check_works(target)
        _finish(target)
    except RuntimeError as error:
        raise InstallError(f"{directory} is a link to itself: choose another folder") from error
    except (tarfile.TarError, EOFError) as error:
        raise InstallError(f"an archive cannot be unpacked: {error}; copy all files of the bundle again") from error
    except OSError as error:
        raise InstallError(
            f"{directory}: {error.strerror or error}; choose another folder, or free some space"
        ) from error


def read_manifest(place: Path) -> dict[str, Any]:
    """Return the description of the bundle."""
    try:
        manifest: dict[str, Any] = json.loads((place / MANIFEST).read_text())
        manifest = {name: manifest[name] for name in KEYS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InstallError(f"{place / MANIFEST} cannot be read: copy all files of the bundle to one folder") from error
    return manifest


def find_glibc() -> str:
    """Return the version of the C library, such as "glibc 2.36"; empty if it is not glibc."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):  # musl does not know the name
        return ""


def check_platform(needs: Mapping[str, Any], system: str, machine: str, libc: str) -> None:
    """Raise InstallError unless the programs run here."""
    wanted = f"Linux on {needs['machine']} with glibc {needs['glibc']} or newer"
    if system != "Linux" or machine != needs["machine"]:
        raise InstallError(f"this machine is {system} on {machine}; the bundle is for {wanted}")
    name, _, version = libc.partition(" ")
    if name != "glibc":
        raise InstallError(f"the C library of this machine is not glibc (musl?); the bundle is for {wanted}")
    if _parse_version(version) < _parse_version(needs["glibc"]):
        raise InstallError(f"this machine has glibc {version}; the bundle is for {wanted}")


def find_unusable(libraries: Mapping[str, str], libc: str) -> list[str]:
    """Return the libraries that need a newer glibc than this machine has, which must have them itself."""
    version = _parse_version(libc.partition(" ")[2])
    return [name for name, needed in libraries.items() if version < _parse_version(needed)]


def check_works(target: Path) -> None:
    """Raise InstallError, with what they print, if installed programs do not run here."""
    for argv in (["usr/bin/python3.11", "-Ic", TRY_PYTHON], ["usr/lib/postgresql/15/bin/postgres", "--version"]):
        try:
            done = subprocess.run(
                [str(target / argv[0]), *argv[1:]], capture_output=True, text=True, timeout=TRY_SECONDS, check=False
            )
        except OSError as error:
            raise InstallError(
                f"{target / argv[0]} does not run: {error}; is {target} on a disk without exec?"
            ) from error
        if done.returncode != 0:
            raise InstallError(f"{target / argv[0]} does not run here: {done.stderr.strip()}; install what is missing")


def check_programs() -> None:
    """Raise InstallError, which names it, if a program or module is missing."""
    missing = [name for name in ("bash", "sh") if shutil.which(name) is None]
    if missing:  # Triton starts Python with bash, and RabbitMQ's programs are scripts
        raise InstallError(
            f"{' and '.join(missing)} must be installed, and {sys.executable} does not find them on PATH"
        )
    try:
        import lzma  # noqa: F401 - some Pythons are built without it
    except ImportError as error:
        raise InstallError(f"{sys.executable} has no module lzma; use a Python that has it") from error


def check_target(target: Path, is_root: bool) -> None:
    """Raise InstallError unless this is a new folder, an empty one, or an installation, which the servers can enter."""
    if target.exists() and not target.is_dir():
        raise InstallError(f"{target} is a file: choose a folder")
    if not USABLE.fullmatch(str(target)):  # found by trial: with others, RabbitMQ, PostgreSQL or models do not start
        raise InstallError(f"{str(target)!r}: the servers need a path of ASCII letters, digits and any of /._-+,=@~%#")
    if target.is_dir() and not (target / MARKER).exists():
        used = list_own(target) if target == HERE else sorted(each.name for each in target.iterdir())
        if used:
            text = f"{target} has {', '.join(used[:5])}, and no installation: choose a new folder"
            raise InstallError(f"{text}; nothing was changed")
    if is_root:
        for parent in (target, *target.parents):
            if parent.exists() and not parent.stat().st_mode & 0o001:
                raise InstallError(
                    f"{parent} is closed to other users, and {CLOSED}: choose a folder such as /opt/charonia"
                )


def list_own(target: Path) -> list[str]:
    """Return what would be replaced in a folder: programs, commands and data. A link `up` is the bundle's own."""
    names = [*PROGRAMS, "data", *COMMANDS]
    return [name for name in names if (target / name).exists() and not (target / name).is_symlink()]


def check_may_execute(target: Path) -> None:
    """Raise InstallError if programs cannot run on the disk of a folder, which may not exist yet."""
    place = next(each for each in (target, *target.parents) if each.exists())
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        raise InstallError(
            f"{place} is on a disk that is mounted noexec, so no program runs there: choose a folder on another disk"
        )


def check_not_running(target: Path) -> None:
    """Raise InstallError if a stack of this installation runs, wherever its data is, or another program of it."""
    for lock in sorted(target.glob("data/stack*/lock")):
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InstallError(f"the stack in {lock.parent} is running: stop it first") from None
    if (pid := find_process(target)) is not None:
        raise InstallError(f"process {pid} runs a program of {target}: stop its stack, or that process, first")


def find_process(target: Path) -> int | None:
    """Return a process that runs an installed program. Of other users, only root sees processes."""
    folders = [target / name for name in PROGRAMS]
    for link in PROC.glob("[0-9]*/exe"):
        try:
            program = link.readlink()
        except OSError:  # the process has ended, or is not ours
            continue
        if any(program.is_relative_to(folder) for folder in folders) and int(link.parent.name) != os.getpid():
            return int(link.parent.name)
    return None


def check_archives(place: Path, needed: Sequence[str] = ()) -> None:
    """Raise InstallError, which names all of them, if files of the bundle are missing or damaged."""
    try:
        lines = (place / CHECKSUMS).read_text().splitlines()
        wanted = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except (OSError, ValueError) as error:
        raise InstallError(f"{place / CHECKSUMS} cannot be read: copy all files of the bundle to one folder") from error
    if unlisted := [name for name in needed if name not in wanted]:
        raise InstallError(f"{place / CHECKSUMS} is cut short: it lacks {', '.join(unlisted)}; copy it again")
    missing = [name for name in wanted if not (place / name).is_file()]
    if missing:
        raise InstallError(f"missing in {place}: {', '.join(missing)}; copy all files of the bundle to one folder")
    damaged = [name for name, digest in wanted.items() if _hash(place / name) != digest]
    if damaged:
        raise InstallError(f"damaged, by their SHA-256: {', '.join(damaged)}; copy them again")


def check_space(target: Path, needed: int) -> None:
    """Raise InstallError if the disk is too full. What an earlier installation has is not counted."""
    free = shutil.disk_usage(target).free
    if free < needed:
        raise InstallError(
            f"{target} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are needed: free some space"
        )


def _unpack(archives: list[Path], target: Path) -> None:
    def unpack(archive: Path) -> None:
        with tarfile.open(archive, "r|xz") as tar:
            # Its checksum is that of the bundle, so the archive is trusted.
            tar.extractall(target, filter="tar") if hasattr(tarfile, "tar_filter") else tar.extractall(target)  # noqa: S202

    with ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        for archive, _ in zip(archives, pool.map(unpack, archives), strict=True):
            sys.stdout.write(f"  {archive.name}\n")
            sys.stdout.flush()


def _remove_programs(target: Path) -> None:
    for name in COMMANDS:
        (target / name).unlink(missing_ok=True)
    for name in PROGRAMS:
        shutil.rmtree(target / name, ignore_errors=True)


def _finish(target: Path) -> None:
    """Name the interpreter to the environments; add the commands last, because they say that all is there."""
    for name in ("services", "triton"):
        lines = ["home = " + str(target / "usr" / "bin"), "include-system-site-packages = false", "version = 3.11"]
        (target / name / "pyvenv.cfg").write_text("\n".join(lines) + "\n")
    (target / "LICENSES").unlink(missing_ok=True)
    shutil.copyfile(target / "app" / "LICENSES", target / "LICENSES")
    for name in COMMANDS:
        shutil.copy(target / "app" / "deploy" / "bundle" / "commands" / name, target / name)
    _link_up(target)


def _link_up(target: Path) -> None:
    """Make `./up` work in the folder of the bundle, too, unless that is read-only."""
    link = HERE / "up"
    if target == HERE:
        return
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(target / "up")
    except OSError:
        return


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
