"""What the installer refuses, and with which words."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy.bundle import installer
from deploy.bundle.installer import (
    InstallError,
    check_archives,
    check_may_execute,
    check_not_running,
    check_platform,
    check_target,
)

NEEDS = {"machine": "x86_64", "glibc": "2.35"}


def make_bundle(place: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (place / name).write_text(text)
    lines = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in files.items()]
    (place / "SHA256SUMS").write_text("".join(lines))


@pytest.mark.parametrize("libc", ["glibc 2.35", "glibc 2.41", "glibc 2.100"])
def test_a_platform_that_is_new_enough(libc: str) -> None:
    check_platform(NEEDS, "Linux", "x86_64", libc)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "reason"),
    [
        ("Linux", "aarch64", "glibc 2.41", "this machine is Linux on aarch64"),
        ("Darwin", "x86_64", "", "this machine is Darwin on x86_64"),
        ("Linux", "x86_64", "", r"the C library of this machine is not glibc \(musl\?\)"),
        ("Linux", "x86_64", "glibc 2.9", "this machine has glibc 2.9"),
        ("Linux", "x86_64", "glibc 2.34", "this machine has glibc 2.34"),
    ],
)
def test_a_wrong_platform_is_refused(system: str, machine: str, libc: str, reason: str) -> None:
    with pytest.raises(InstallError, match=f"^{reason}; the bundle is for Linux on x86_64 with glibc 2.35 or newer$"):
        check_platform(NEEDS, system, machine, libc)


def test_glibc_of_this_machine_is_found() -> None:
    assert installer.find_glibc().startswith("glibc 2.")


def test_only_libraries_that_need_a_newer_glibc_are_left_to_the_system() -> None:
    libraries = {"new.so": "2.36", "old.so": "2.9"}
    assert installer.find_unusable(libraries, "glibc 2.35") == ["new.so"]
    assert installer.find_unusable(libraries, "glibc 2.36") == []


def test_a_whole_bundle_is_accepted(tmp_path: Path) -> None:
    make_bundle(tmp_path, {"a.tar.xz": "a", "b.tar.xz": "b"})
    check_archives(tmp_path)


def test_every_missing_archive_is_named(tmp_path: Path) -> None:
    make_bundle(tmp_path, {"a.tar.xz": "a", "b.tar.xz": "b", "c.tar.xz": "c"})
    (tmp_path / "a.tar.xz").unlink()
    (tmp_path / "c.tar.xz").unlink()
    with pytest.raises(InstallError, match=r"^missing in .*: a\.tar\.xz, c\.tar\.xz; copy all files"):
        check_archives(tmp_path)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    make_bundle(tmp_path, {"a.tar.xz": "a", "b.tar.xz": "b"})
    (tmp_path / "b.tar.xz").write_text("x")
    with pytest.raises(InstallError, match=r"^damaged, by their SHA-256: b\.tar\.xz; copy them again$"):
        check_archives(tmp_path)


def test_checksums_that_are_cut_short_are_refused(tmp_path: Path) -> None:
    make_bundle(tmp_path, {"a.tar.xz": "a"})
    with pytest.raises(InstallError, match=r"SHA256SUMS is cut short: it lacks b\.tar\.xz; copy it again"):
        check_archives(tmp_path, ["a.tar.xz", "b.tar.xz"])
    (tmp_path / "SHA256SUMS").write_text("abc")
    with pytest.raises(InstallError, match="SHA256SUMS cannot be read"):
        check_archives(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_description_that_is_damaged_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bundle.json").write_text(text)
    with pytest.raises(InstallError, match=r"bundle\.json cannot be read"):
        installer.read_manifest(tmp_path)


def test_a_bundle_without_checksums_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="SHA256SUMS cannot be read: copy all files of the bundle"):
        check_archives(tmp_path)


def test_a_new_an_empty_and_an_installed_folder_are_accepted(tmp_path: Path) -> None:
    check_target(tmp_path / "new", is_root=False)
    check_target(tmp_path, is_root=False)
    (tmp_path / installer.MARKER).touch()
    (tmp_path / "data").mkdir()
    check_target(tmp_path, is_root=False)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    (tmp_path / "bundle.json").touch()  # other programs have a file of this name, too
    with pytest.raises(InstallError, match=r"has bundle\.json, mine\.txt, and no installation: choose a new folder"):
        check_target(tmp_path, is_root=False)
    with pytest.raises(InstallError, match=r"mine\.txt is a file: choose a folder"):
        check_target(tmp_path / "mine.txt", is_root=False)


def test_the_folder_of_the_bundle_is_accepted_without_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installer, "HERE", tmp_path)
    make_bundle(tmp_path, {"a.tar.xz": "a"})
    (tmp_path / "up").symlink_to("/opt/charonia/up")
    check_target(tmp_path, is_root=False)
    (tmp_path / "app").mkdir()
    (tmp_path / "demo").touch()
    with pytest.raises(InstallError, match="has app, demo, and no installation"):
        check_target(tmp_path, is_root=False)


@pytest.mark.parametrize("name", ["my files", "a:b", "müller", "a'b", "a;b", "a\\b", "$a"])
def test_a_path_with_which_a_server_does_not_start_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InstallError, match="the servers need a path of ASCII letters"):
        check_target(tmp_path / name, is_root=False)


def test_root_needs_a_folder_that_the_servers_user_can_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    check_target(tmp_path / "new", is_root=False)
    with pytest.raises(InstallError, match=r"is closed to other users, and .*: choose a folder such as /opt/charonia"):
        check_target(tmp_path / "new", is_root=True)


def test_a_running_stack_is_not_replaced(tmp_path: Path) -> None:
    lock = tmp_path / "data" / "stack-7000" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    check_not_running(tmp_path)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InstallError, match=r"stack-7000 is running: stop it first"):
            check_not_running(tmp_path)


def test_a_running_stack_with_data_elsewhere_is_not_replaced(tmp_path: Path) -> None:
    program = tmp_path / "usr" / "bin" / "sleep"
    program.parent.mkdir(parents=True)
    shutil.copy2(str(shutil.which("sleep")), program)
    check_not_running(tmp_path)
    process = subprocess.Popen([program, "600"])  # returns once the program runs
    try:
        with pytest.raises(InstallError, match=rf"^process {process.pid} runs a program of {tmp_path}: stop its stack"):
            check_not_running(tmp_path)
        check_not_running(tmp_path / "usr")  # has no programs of an installation
    finally:
        process.kill()
        process.wait()
    check_not_running(tmp_path)


def test_a_disk_without_exec_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_may_execute(tmp_path / "new" / "folder")
    flags = {tmp_path: SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID)}
    monkeypatch.setattr(os, "statvfs", flags.__getitem__)
    with pytest.raises(InstallError, match=rf"^{tmp_path} is on a disk that is mounted noexec, .*: choose a folder"):
        check_may_execute(tmp_path / "new" / "folder")


def test_a_full_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"GB free, and 1000000000\.0 GB are needed: free some space"):
        installer.check_space(tmp_path, 10**18)


def test_a_program_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match=r"python3\.11 does not run: .* is .* on a disk without exec\?"):
        installer.check_works(tmp_path)
