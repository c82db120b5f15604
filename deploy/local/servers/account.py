"""The users that PostgreSQL and Triton run as when this process is root, and directories for them.

PostgreSQL refuses to run as root. An installation from a bundle makes no user: without `postgres`, it takes `nobody`,
which every system has.

Triton runs the code of models, so it gets a number that no user of the machine has. It can read what everybody can.
"""

import grp
import hashlib
import itertools
import os
import pwd
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import MissingPrograms
from deploy.local.installation import DATA, INSTALLATION

SYSTEM_USERS = ("postgres", "nobody") if INSTALLATION else ("postgres",)
FIRST_NUMBER = 10001  # of a user for Triton; its containers have the same


@dataclass(frozen=True)
class NumberedAccount:
    """`number` is None if this process is not root: the server then runs as the same user."""

    number: int | None

    @classmethod
    def for_triton(cls) -> "NumberedAccount":
        """Return the account to use: if this process is root, the first number that no user and no group has."""
        if os.geteuid() != 0:
            return cls(None)
        return cls(next(number for number in itertools.count(FIRST_NUMBER) if not _is_taken(number)))

    @property
    def options(self) -> list[str]:
        """The options with which setpriv(1) becomes this user."""
        if self.number is None:
            return []
        return ["--reuid", str(self.number), "--regid", str(self.number), "--clear-groups", "--no-new-privs"]

    def make_home(self, directory: Path) -> Path:
        """Create a directory that only this user can enter, and return it."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.number is not None:
            os.chown(directory, self.number, self.number)
        return directory


@dataclass(frozen=True)
class Account:
    """`name` is None if this process is not root: PostgreSQL then runs as the same user."""

    name: str | None

    @classmethod
    def for_postgres(cls) -> "Account":
        """Return the account to use; raise MissingPrograms if root finds no user `postgres`."""
        if os.geteuid() != 0:
            return cls(None)
        for name in SYSTEM_USERS:
            with suppress(KeyError):
                return cls(pwd.getpwnam(name).pw_name)
        raise MissingPrograms(f"no user {SYSTEM_USERS[0]}, which the package postgresql creates")

    @property
    def options(self) -> list[str]:
        """The options with which setpriv(1) becomes this user."""
        if self.name is None:
            return []
        group = pwd.getpwnam(self.name).pw_gid  # the group of `nobody` has other names, too
        return ["--reuid", self.name, "--regid", str(group), "--init-groups"]

    def place(self, wanted: Path) -> Path:
        """Create a directory that only this user can enter, and return it.

        It is `wanted` if the user can enter its parents. Below a closed directory, such as /root, `wanted` becomes
        a link to a directory in the user's home, or in an installation's data. Without the link, that directory is
        deleted at the next call.
        """
        wanted.parent.mkdir(parents=True, exist_ok=True)
        if self.name is None:
            wanted.mkdir(mode=0o700, exist_ok=True)
            return wanted
        entry = pwd.getpwnam(self.name)
        home = DATA if INSTALLATION else Path(entry.pw_dir)
        place = home / _unique_name(wanted) if find_closed(wanted) else wanted
        if place != wanted and not wanted.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
            wanted.symlink_to(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0o700, exist_ok=True)
        os.chown(place, entry.pw_uid, entry.pw_gid)
        return place

    def remove(self, wanted: Path) -> None:
        """Remove the directory that place() created."""
        if wanted.is_symlink():
            shutil.rmtree(wanted.readlink(), ignore_errors=True)
            wanted.unlink()
        shutil.rmtree(wanted, ignore_errors=True)

    def give(self, path: Path) -> None:
        """Make this user the owner of a file."""
        if self.name is not None:
            entry = pwd.getpwnam(self.name)
            os.chown(path, entry.pw_uid, entry.pw_gid)


def find_closed(path: Path) -> Path | None:
    """Return the topmost folder above a path that other users cannot enter, such as /root; None without one."""
    parents = path.parent.resolve().joinpath("x").parents
    return next((parent for parent in reversed(parents) if not parent.stat().st_mode & 0o001), None)


def open_to_others(folder: Path) -> None:
    """Let other users read a folder with all that is in it, and enter its folders, whatever the umask was."""
    for place, _, names in os.walk(folder):
        for each in (Path(place), *(Path(place, name) for name in names)):
            mode = each.lstat().st_mode
            if not stat.S_ISLNK(mode):
                each.chmod(mode | 0o044 | (0o011 if mode & 0o100 else 0))


def _is_taken(number: int) -> bool:
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look_up(number)
            return True
    return False


def _unique_name(path: Path) -> str:
    return f"charonia-{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]}"
