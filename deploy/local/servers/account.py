"""The user that PostgreSQL runs as, because it refuses to run as root, and the directory for its data.

An installation from a bundle makes no user: without `postgres`, it takes `nobody`, which every system has.
"""

import hashlib
import os
import pwd
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import MissingPrograms
from deploy.local.installation import DATA, INSTALLATION

SYSTEM_USERS = ("postgres", "nobody") if INSTALLATION else ("postgres",)


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
        place = wanted if _open_to_others(wanted) else home / _unique_name(wanted)
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


def _open_to_others(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.parent.resolve().joinpath("x").parents)


def _unique_name(path: Path) -> str:
    return f"charonia-{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]}"
