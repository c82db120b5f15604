"""Shows folders to a server that runs as another user, although that user cannot enter a folder above them.

A clone in /root is an example. The server gets a mount namespace of its own. There, the closed folder is an empty one
that everybody can enter, and has only the folders that the server needs. Their paths stay the same.
"""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.local.errors import CommandFailed, InvalidSetting
from deploy.local.processes.command import run
from deploy.local.servers.account import NumberedAccount, find_closed

CHECK_SECONDS = 30.0
# Prints the first of its arguments that this user cannot read.
CHECK = """
for each in "$@"; do
  if [ ! -r "$each" ] || { [ -d "$each" ] && [ ! -x "$each" ]; }; then
    echo "$each"
    exit
  fi
done
"""
ELSEWHERE = "put that in a folder that everybody can enter, such as /opt or /srv"


def show_folders(paths: Iterable[Path], home: Path, stages: Path) -> list[str]:
    """Return the start of a command that shows these paths; empty if nothing above them is closed.

    What follows runs in the folder `home`. The command makes folders below `stages`.
    """
    closed: dict[Path, list[Path]] = {}
    for path in sorted({path.resolve() for path in paths if path.exists()}):
        if (above := find_closed(path)) is not None:
            closed.setdefault(above, []).append(path)
    if not closed:
        return []
    # The one that hides the stages comes last.
    order = sorted(closed, key=stages.resolve().is_relative_to)
    lines = [line for above in order for line in _fill(_stage(stages, order, above), above, closed[above])]
    lines += [["mount", "--move", str(_stage(stages, order, above)), str(above)] for above in order]
    script = "\n".join([*map(shlex.join, lines), shlex.join(["cd", str(home)]), 'exec "$@"'])
    return ["unshare", "--mount", "sh", "-euc", script, "sh"]


def _stage(stages: Path, order: Sequence[Path], above: Path) -> Path:
    return stages.resolve() / str(order.index(above))


def _fill(stage: Path, above: Path, shown: Sequence[Path]) -> list[list[str]]:
    """Return commands that make a folder which everybody can enter, and show paths in it as they are in another."""
    lines = [["mkdir", "-p", str(stage)], ["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(stage)]]
    made: list[Path] = []
    for path in shown:
        if any(path.is_relative_to(other) for other in made):
            continue
        made.append(path)
        point = stage / path.relative_to(above)
        lines.append(["mkdir", "-p", str(point if path.is_dir() else point.parent)])
        lines += [] if path.is_dir() else [["touch", str(point)]]
        lines.append(["mount", "--rbind", str(path), str(point)])
    return lines


def check_readable(paths: Sequence[Path], account: NumberedAccount, shown: Sequence[str]) -> None:
    """Raise InvalidSetting, which says what to do, unless the account can read those of these paths that exist.

    `shown` is what show_folders() returned. Raises CommandFailed if this process cannot become the account.
    """
    argv = [*shown, "setpriv", *account.options, "sh", "-c", CHECK, "sh"]
    argv += [str(path) for path in paths if path.exists()]
    try:
        unreadable = run(argv, timeout=CHECK_SECONDS).strip()
    except CommandFailed as error:
        if not shown:
            raise
        closed = next(filter(None, map(find_closed, paths)), None)
        reason = str(error).splitlines()[-1]
        raise InvalidSetting(
            f"{closed} is closed to other users, Triton does not run as root, and it cannot be shown what is in there "
            f"({reason}): {ELSEWHERE}, or run: chmod o+x {closed}"
        ) from error
    if unreadable:
        raise InvalidSetting(explain_unreadable(Path(unreadable)))


def explain_unreadable(path: Path) -> str:
    """Return why the server cannot read a path, and what to do."""
    return f"Triton does not run as root, and other users cannot read {path}; run: chmod -R o+rX {path}"


def find_unreadable(folder: Path) -> Path | None:
    """Return the first file or folder in a folder, or itself, that other users cannot read; None without one."""
    pending, seen = [folder], set()
    while pending:
        path = pending.pop().resolve()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        wanted = 0o005 if path.is_dir() else 0o004
        if path.stat().st_mode & wanted != wanted:
            return path
        pending += sorted(path.iterdir(), reverse=True) if path.is_dir() else []
    return None
