"""What a local folder needs beside obstore: writes that survive a power failure, and the end of unfinished ones.

obstore writes to `<key>#<number>` and renames it when it is complete. It never calls fsync. A process that is killed
leaves its `#` file, which no listing shows.
"""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_UNFINISHED = re.compile(r".+#\d+")


def sync(root: Path, key: str) -> None:
    """Write an object and the names of its folders to the disk."""
    path = root / key
    _fsync(path)
    for folder in path.parents:
        _fsync(folder)
        if folder == root:
            return


def delete_unfinished(root: Path, older_than: float) -> int:
    """Delete the files of writes that made no progress for so many seconds. Return how many there were."""
    deleted = 0
    for path in _find_unfinished(root, time.time() - older_than):
        path.unlink(missing_ok=True)
        deleted += 1
    return deleted


def delete_parts(root: Path, keys: Sequence[str]) -> None:
    """Delete the files of writes to these keys that did not end, and the folders that are empty then."""
    for path in (root / key for key in keys):
        with suppress(FileNotFoundError):
            for each in list(path.parent.iterdir()):
                if _UNFINISHED.fullmatch(each.name) and each.name.rpartition("#")[0] == path.name:
                    each.unlink(missing_ok=True)
            _remove_empty(root, path.parent)


def _remove_empty(root: Path, folder: Path) -> None:
    """Remove a folder below the root, and those around it, as long as they are empty."""
    with suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _find_unfinished(root: Path, before: float) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in filter(_UNFINISHED.fullmatch, names):
            path = Path(folder, name)
            try:
                if path.stat().st_mtime < before:
                    yield path
            except FileNotFoundError:  # it was completed in the meantime
                continue


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
