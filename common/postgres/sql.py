"""Named queries from the `.sql` file beside a module.

A file is a list of blocks. A block has a line `-- name: claim_jobs`, comments that describe the query, and one
statement.
"""

import re
from importlib.resources import files

_NAME_LINE = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(package: str, file: str = "queries.sql") -> dict[str, str]:
    """Return the queries of a package's file by name. Each starts with its name, which pg_stat_activity shows."""
    parts = _NAME_LINE.split((files(package) / file).read_text())
    names, texts = parts[1::2], parts[2::2]
    return {name: f"-- {name}\n{text.strip().rstrip(';')}" for name, text in zip(names, texts, strict=True)}
