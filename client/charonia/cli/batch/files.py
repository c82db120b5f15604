"""Opens the files that a run writes."""

from pathlib import Path

import msgspec

from charonia.cli.arguments import InvalidArgument
from charonia.cli.batch.results import ResultFile, ResultLine
from charonia.journal import Journal, sync_folder


def open_files(items: Path, output: Path, *, restart: bool) -> tuple[Journal, ResultFile]:
    """Open the journal and the file of results. Raise InvalidArgument if the results are not those of a run."""
    if str(output) == "-":
        raise InvalidArgument("the results go to a file, with which a run can go on; name one, not -")
    if not output.absolute().parent.is_dir():
        raise InvalidArgument(f"there is no folder {str(output.parent)!r}; create it first")
    if output.exists():
        check_output(items, output)
    path = output.with_name(f"{output.name}.progress")
    if is_filled(output) and not path.exists() and not has_results(output):
        raise InvalidArgument(
            f"{output} exists already, and it has no results of a batch; name another file, or delete it"
        )
    if is_filled(output) and not path.exists() and not restart:
        raise already_there(output)
    journal = Journal(path)
    try:
        if not restart and is_filled(output) and (journal.is_stale() or journal.find_beginning() is None):
            raise already_there(output)
        results = ResultFile(output)
    except BaseException:
        journal.close()
        raise
    if restart:
        results.clear()
        journal.clear()
    sync_folder(output.absolute().parent)
    return journal, results


def close_files(journal: Journal, results: ResultFile) -> None:
    """Write what is left, then let another command use the files."""
    results.close()
    journal.close()


def check_output(items: Path, output: Path) -> None:
    """Raise InvalidArgument for a file that cannot have results."""
    if output.samefile(items):
        raise InvalidArgument(f"{output} has the items; write the results to another file")
    if not output.is_file():
        raise InvalidArgument(f"{output} is no plain file, so the run could not go on after a crash; name another one")


def is_filled(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def has_results(path: Path) -> bool:
    """Return whether the first line is a result."""
    with path.open("rb") as file:
        try:
            msgspec.json.decode(file.readline(), type=ResultLine)
        except msgspec.DecodeError:
            return False
    return True


def already_there(output: Path) -> InvalidArgument:
    return InvalidArgument(
        f"{output} exists already, and it is not from a run that can go on. Name another file, or begin anew with "
        "--restart, which deletes its lines"
    )
