"""Each decision has a status and a date, and the index lists it."""

import re
from datetime import date
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))
HEAD = re.compile(
    r"# (?P<number>[0-9]+)\. .+\n\n"
    r"Status: (?:accepted|superseded by \[decision [0-9]+\]\((?P<successor>[\w-]+\.md)\))"
    r" · (?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})\n\n"
)
ROW = re.compile(r"^\| \[([0-9]+)\]\(([\w-]+\.md)\) \| .+ \| (\S+) \| (accepted|superseded) \|$", re.MULTILINE)


def read_head(page: Path) -> re.Match[str]:
    found = HEAD.match(page.read_text())
    assert found is not None, "the page begins with its title and `Status: accepted · 2026-11-21`"
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_has_a_status_and_a_date(page: Path) -> None:
    head = read_head(page)
    assert date.fromisoformat(head["date"])
    assert int(head["number"]) == int(page.stem[:4])
    if head["successor"] is not None:
        assert (FOLDER / head["successor"]) in PAGES


def test_the_index_lists_each_decision() -> None:
    expected = []
    for page in PAGES:
        head = read_head(page)
        status = "accepted" if head["successor"] is None else "superseded"
        expected.append((head["number"], page.name, head["date"], status))
    assert ROW.findall((FOLDER / "index.md").read_text()) == expected
