"""Markdown: tables, and the generated sections of pages."""

import re
from collections.abc import Iterable, Sequence

SECTION = re.compile(r"<!-- generated: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
ROW = re.compile(r"^\| `([^`]+)` \|(?:.*\|)? ([^|]*) \|$", re.MULTILINE)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. A bar in a cell is escaped, and a line break becomes a space."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(clean(cell) for cell in line)} |\n" for line in lines)


def clean(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())


def link(heading: str) -> str:
    """Return a link to a heading of the same page."""
    return f"[{heading}](#{slugify(heading)})"


def slugify(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def read_last_cells(text: str) -> dict[str, str]:
    """Return the last cell of each row by its first, which is code: the part of a table that people write."""
    return {name: cell.strip() for name, cell in ROW.findall(text)}
