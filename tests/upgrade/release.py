"""The code of the last release, as an installation that can be started."""

import subprocess
import sys
from pathlib import Path

import msgspec

from deploy.local.services import Installation
from deploy.local.settings import ROOT

LAST_RELEASE = ROOT / "deploy" / "last_release.toml"
MIGRATIONS = "common/postgres/migrations"
INSTALL_SECONDS = 600.0


class Release(msgspec.Struct, frozen=True):
    """A released version, and the commit that it was made of."""

    version: str
    commit: str


def read_last_release() -> Release:
    return msgspec.toml.decode(LAST_RELEASE.read_bytes(), type=Release)


def check_migrations(release: Release, root: Path = ROOT) -> None:
    """Raise SystemExit if a migration of the release is not as it was."""
    command = ["git", "diff", "--name-only", "--no-renames", "--diff-filter=a", release.commit, "--", MIGRATIONS]
    found = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    if found.returncode:
        raise no_commit(release)
    if edited := found.stdout.split():
        raise SystemExit(
            f"Migrations of {release.version} have changed: {', '.join(edited)}. Databases have run them already. "
            "Put them back, and write a new one."
        )


def no_commit(release: Release) -> SystemExit:
    return SystemExit(f"This clone has no commit {release.commit}. Get the whole history: git fetch --unshallow")


def install_release(release: Release, folder: Path) -> Installation:
    """Write the files of a release into an empty folder. Install its libraries, unless they are those of this tree."""
    archive = folder.with_suffix(".tar")
    command = ["git", "archive", "--format=tar", f"--output={archive}", release.commit]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise no_commit(release)
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    archive.unlink()
    requirements = "requirements.txt"
    if (folder / requirements).read_bytes() == (ROOT / requirements).read_bytes():
        return Installation(folder)
    install = [sys.executable, "-m", "deploy.local.install", "--venv", ".venv"]
    subprocess.run(install, cwd=folder, check=True, timeout=INSTALL_SECONDS)
    return Installation(folder, str(folder / ".venv" / "bin" / "python"))
