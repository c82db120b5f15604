"""Compare the object store with the database, and mend what differs: `python -m services.gateway.commands.check_files`.

It reads `CHARONIA_DATABASE_URL` and `CHARONIA_STORE_URL`. Services may run meanwhile.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

import msgspec

from common.errors import CharoniaError
from common.lifecycle import run_command
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.settings import DatabaseUrl, StoreUrl, load
from services.gateway.commands.check_files.check import FileCheck, Finding, Problem, Seen
from services.gateway.commands.check_files.store import FileCheckStore

CLEAN, FINDINGS, FAILED = 0, 1, 2
PROBLEMS: dict[Problem, str] = {
    "object_without_file": "object without a file",
    "file_without_object": "file without its object",
    "wrong_size": "object of another size than its file",
}
MENDED: dict[Problem, str] = {"object_without_file": "deleted", "file_without_object": "given up"}
NOTHING_KNOWN = (
    "nothing was mended: the store has no object of a file of this database. If CHARONIA_STORE_URL or "
    "CHARONIA_DATABASE_URL is another stack's, correct it. If all of it is to be mended, add --force."
)


class CheckSettings(msgspec.Struct, frozen=True):
    database_url: DatabaseUrl
    store_url: StoreUrl


class Mended(msgspec.Struct, frozen=True):
    """What was done about a finding, and where."""

    done: str
    key: str


class Summary(msgspec.Struct, frozen=True):
    """What was looked at, found and mended."""

    objects: int
    other_objects: int
    files: int
    findings: int
    mended: int


async def check(settings: CheckSettings, arguments: argparse.Namespace) -> int:
    """Print what is wrong, mend it if asked, and return the exit code. Raises CharoniaError."""
    objects = ObjectStore(settings.store_url)
    database = await Database.connect(settings.database_url, size=1, application="charonia-check-files")
    try:
        await objects.check()  # a bucket that is missing looks empty
        return await compare(FileCheck(FileCheckStore(database), objects), arguments)
    finally:
        await database.close()
        objects.close()


async def compare(files: FileCheck, arguments: argparse.Namespace) -> int:
    """Look at everything, and then, with `fix`, once more to mend it page by page."""
    seen, found, mended = Seen(), 0, 0
    async for page in files.find(seen):
        found += len(page)
        for finding in page:
            show(finding, arguments)
    if found and arguments.fix:
        if not seen.known and not arguments.force:
            raise CharoniaError(NOTHING_KNOWN)
        async for page in files.find(Seen()):
            for finding in await files.mend(page):
                mended += 1
                show(Mended(MENDED[finding.problem], finding.key), arguments)
    show(Summary(seen.objects, seen.foreign, seen.files, found, mended), arguments)
    return FINDINGS if found else CLEAN


def show(what: Finding | Mended | Summary, arguments: argparse.Namespace) -> None:
    """Print a line, at once: another program may read it, and this one may be killed."""
    print(msgspec.json.encode(what).decode() if arguments.json else write(what), flush=True)


def write(what: Finding | Mended | Summary) -> str:
    """Return a line for people."""
    match what:
        case Finding():
            sizes = [f"has {what.size} bytes"] if what.size is not None else []
            sizes += [f"should have {what.expected}"] if what.expected is not None else []
            return f"{PROBLEMS[what.problem]}: {what.key} ({what.file_id}) {', '.join(sizes)}"
        case Mended():
            return f"{what.done}: {what.key}"
        case Summary():
            others = f" and {what.other_objects} that are not Charonia's" if what.other_objects else ""
            looked = f"Looked at {what.objects} objects{others}, and at {what.files} files."
            return f"{looked} Findings: {what.findings}. Mended: {what.mended}."


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m services.gateway.commands.check_files",
        description="Compare the object store with the database, and mend what differs. Services may run meanwhile.",
        epilog="Exit codes: 0 nothing is wrong, 1 something is or was, 2 it could not look or mend.",
    )
    fix_help = "delete objects without a file, and give up files without their object"
    parser.add_argument("--fix", action="store_true", help=fix_help)
    parser.add_argument("--force", action="store_true", help="mend although the store has no object of this database")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    return parser.parse_args(arguments)


def main() -> int:
    """Return the exit code: 0 if nothing is wrong, 1 for findings, mended ones too, and 2 if it could not look."""
    arguments = parse()
    try:
        return asyncio.run(check(load(CheckSettings), arguments))
    except CharoniaError as error:
        print(f"check_files: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    run_command(main)
