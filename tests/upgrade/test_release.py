"""A migration that was released does not change."""

import subprocess
from pathlib import Path

import pytest

from tests.upgrade.release import MIGRATIONS, Release, check_migrations

IDENTITY = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *IDENTITY, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a released migration."""
    migrations = tmp_path / MIGRATIONS
    migrations.mkdir(parents=True)
    (migrations / "0001_schema.sql").write_text("CREATE TABLE a ();\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=release")
    return tmp_path


def release_of(tree: Path) -> Release:
    return Release("0.1.0", git(tree, "rev-parse", "HEAD"))


def test_a_new_migration_is_no_change(tree: Path) -> None:
    release = release_of(tree)
    (tree / MIGRATIONS / "0002_b.sql").write_text("CREATE TABLE b ();\n")
    git(tree, "add", ".")
    check_migrations(release, tree)


@pytest.mark.parametrize("how", ["edited", "renamed", "removed"])
def test_a_released_migration_stays_as_it_was(tree: Path, how: str) -> None:
    release, migration = release_of(tree), tree / MIGRATIONS / "0001_schema.sql"
    match how:
        case "edited":
            migration.write_text("CREATE TABLE a (id uuid);\n")
        case "renamed":
            migration.rename(migration.with_name("0002_schema.sql"))
        case _:
            migration.unlink()
    with pytest.raises(SystemExit, match=r"Migrations of 0\.1\.0 have changed: \S+/0001_schema\.sql\."):
        check_migrations(release, tree)


def test_a_clone_without_the_release_is_told(tree: Path) -> None:
    with pytest.raises(SystemExit, match="git fetch --unshallow"):
        check_migrations(Release("0.1.0", "0" * 40), tree)
