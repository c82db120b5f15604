"""This tree as the next release, or a copy of it with one more migration."""

import shutil
from pathlib import Path
from typing import Literal

from common.postgres.schema_version import list_migrations
from deploy.local.services import OWN, Installation
from deploy.local.settings import ROOT
from tests.upgrade.release import MIGRATIONS

Migration = Literal["none", "harmless", "incompatible"]
PACKAGES = ("common", "services", "console")  # what services need
STATEMENT = "ALTER TABLE jobs ADD COLUMN upgraded boolean;\n"


def make_next_release(migration: Migration, folder: Path) -> Installation:
    """Return what to upgrade to. A harmless migration says that the services of the last release can use its schema."""
    if migration == "none":
        return OWN
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    last = list_migrations()[-1].number
    header = f"-- compatible with: {last}\n" if migration == "harmless" else ""
    (folder / MIGRATIONS / f"{last + 1:04}_try.sql").write_text(header + STATEMENT)
    return Installation(folder)
