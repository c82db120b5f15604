"""What a local folder needs beside obstore."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from common.object_store import folder
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore

KEY = file_key(UUID(int=1), UUID(int=2))


async def stream() -> AsyncIterator[bytes]:
    yield b"123"


async def test_an_object_and_its_folders_are_on_the_disk_when_a_put_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    await ObjectStore(tmp_path.as_uri()).put(KEY, stream())
    path = tmp_path / KEY
    assert synced == [str(path), *(str(parent) for parent in list(path.parents)[:3])]


async def test_an_object_that_cannot_be_made_durable_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    store = ObjectStore(tmp_path.as_uri())
    with pytest.raises(Exception, match="Input/output error"):
        await store.put(KEY, stream())
    assert [found async for found in store.list_pages()] == []


def test_only_unfinished_files_without_progress_are_deleted(tmp_path: Path) -> None:
    ages = {"t/j/old#1": 100.0, "t/j/old#12": 100.0, "t/j/new#1": 1.0, "t/j/inputs": 100.0}
    for name, age in ages.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        changed = path.stat().st_mtime - age
        os.utime(path, (changed, changed))
    assert folder.delete_unfinished(tmp_path, 50.0) == 2
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["inputs", "new#1"]


async def test_a_url_may_not_last_longer_than_s3_allows(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="7 days at most"):
        await ObjectStore(tmp_path.as_uri()).presign("GET", KEY, timedelta(days=8))


def test_parts_of_an_object_are_deleted_and_empty_folders_removed(tmp_path: Path) -> None:
    own, other = tmp_path / "tenant" / "1", tmp_path / "tenant" / "2"
    for parent in (own, other):
        parent.mkdir(parents=True)
        (parent / "content#1").touch()
    (other / "content2#1").touch()
    folder.delete_parts(tmp_path, ["tenant/1/content", "tenant/2/content", "tenant/3/content"])
    assert not own.exists()
    assert [path.name for path in other.iterdir()] == ["content2#1"]
