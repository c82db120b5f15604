"""Named queries from the `.sql` file beside a module.

A file is a list of blocks: `-- name: claim_jobs`, lines of comment that describe it, then one statement.
"""

import re
from importlib.resources import files

BLOCK = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(package: str, file: str = "queries.sql") -> dict[str, str]:
    """Each query of a package's file under its name, comments included (they show in pg_stat_activity)."""
    parts = BLOCK.split((files(package) / file).read_text())
    names, texts = parts[1::2], parts[2::2]
    return {name: f"-- {name}\n{text.strip().rstrip(';')}" for name, text in zip(names, texts, strict=True)}
