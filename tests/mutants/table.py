"""The table of seeded bugs, `mutants.toml`."""

from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutants.toml")
PAGE = Path(__file__).with_name("README.md")


class Edit(msgspec.Struct, frozen=True, array_like=True):
    """Replaces text that occurs once."""

    find: str
    replace: str


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bug: edits of one file. `test` is the id of the test that must fail; it passes without the bug."""

    bug: str
    path: str
    edits: tuple[Edit, ...]
    test: str

    def apply(self, source: str) -> str:
        """Return the file's text with the bug. Raises ValueError if a text to replace is not there exactly once."""
        for edit in self.edits:
            if (count := source.count(edit.find)) != 1:
                raise ValueError(f"{self.path} has this text {count} times, expected once: {edit.find!r}")
            source = source.replace(edit.find, edit.replace)
        return source


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mutant: tuple[Mutant, ...]


def read_mutants() -> tuple[Mutant, ...]:
    return msgspec.toml.decode(TABLE.read_bytes(), type=Table).mutant


def render_page(mutants: tuple[Mutant, ...]) -> str:
    """Return the page that lists the seeded bugs."""
    rows = [f"| {each.bug} | `{each.path}` | `{each.test.removeprefix('tests/')}` |" for each in mutants]
    return "\n".join([*HEAD.splitlines(), *rows, ""])


HEAD = """\
# Seeded bugs

A test is worth something only if it fails when the promise is broken. `make mutants` puts each of these
bugs into a copy of the repository and runs the named test, which must fail. It takes about twenty minutes
and is not part of CI. [mutants.toml](mutants.toml) has the edits. `python -m tests.mutants --page` writes
this page.

| bug | file | test that fails (in `tests/`) |
| --- | --- | --- |"""
