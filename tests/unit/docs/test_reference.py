"""The reference pages say what the code does: their generated sections are current and complete."""

import re
from pathlib import Path

import pytest

from deploy.docs.markdown import SECTION
from deploy.docs.pages import FOLDER, SECTIONS, list_pages, renew
from deploy.local.settings import ROOT

EMPTY_CELL = re.compile(r"^\| `.*\| +\|$", re.MULTILINE)
PAGES = {page.relative_to(ROOT).as_posix(): page for page in list_pages()}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_is_as_it_would_be_generated(page: Path) -> None:
    assert renew(page) == page.read_text(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_row_says_what_it_means(page: Path) -> None:
    assert EMPTY_CELL.findall(page.read_text()) == []


def test_every_section_is_on_one_page() -> None:
    found = [name for page in PAGES.values() for name, _ in SECTION.findall(page.read_text())]
    assert sorted(found) == sorted(SECTIONS)


def test_a_section_that_nothing_generates_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SECTIONS, "resource-jobs")
    with pytest.raises(LookupError, match=r"docs/reference/api/jobs\.md: nothing generates 'resource-jobs'"):
        renew(FOLDER / "api" / "jobs.md")
