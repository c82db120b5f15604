"""The named statements of the services."""

from functools import cache
from pathlib import Path

from common.postgres import sql
from common.postgres.statements import Statement
from deploy.local.settings import ROOT


@cache
def list_statements() -> dict[str, str]:
    """Return the texts of all statements, each by its folder and name, such as `gateway/jobs: find_job`.

    Folders of services are named without `services/`.
    """
    found: dict[str, str] = {}
    for file in sorted([*(ROOT / "services").rglob("*.sql"), *(ROOT / "common").rglob("*.sql")]):
        folder = file.parent.relative_to(ROOT)
        for name, text in sql.load(".".join(folder.parts), file.name).items():
            key = f"{Path(*folder.parts[folder.parts[0] == 'services' :])}: {name}"
            assert key not in found, f"two statements are named {key}"
            found[key] = Statement(text).text
    assert len({*found.values()}) == len(found), "the proxy knows a statement by its text"
    return found
