"""Compares the object store with the table of files, and mends what differs.

Services may run meanwhile. A deletion marks the row, deletes the object, and removes the row. So what looks wrong is
looked at again: an object without a row may be gone by now, and so may a file without its object.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

from msgspec import Struct

from common import ids
from common.errors import StoreNotFound
from common.object_store.keys import file_key, parse_file_key
from common.object_store.store import ObjectInfo, ObjectStore
from services.gateway.commands.check_files.store import CompleteFile, FileCheckStore

ORPHAN_AGE = timedelta(days=1)
FILE_AGE = timedelta(hours=1)
PAGE = 500  # rows; a page of objects has as many as the store lists at a time
REQUESTS = 16  # to the object store at a time
FIRST = UUID(int=0)

Problem = Literal["object_without_file", "file_without_object", "wrong_size"]


class Finding(Struct, frozen=True, kw_only=True):
    """A file and an object that do not fit together."""

    problem: Problem
    file_id: str
    key: str
    """Where the object is, or should be."""
    size: int | None
    """The bytes of the object."""
    expected: int | None
    """The bytes of the file, as its row says."""


class Seen(Struct):
    """What a comparison has looked at."""

    objects: int = 0
    known: int = 0
    """Objects whose file has a row."""
    foreign: int = 0
    """Objects that are no content of a file."""
    files: int = 0


class FileCheck:
    """Memory stays at a page of each, at any number of files."""

    def __init__(
        self,
        store: FileCheckStore,
        objects: ObjectStore,
        orphan_age: timedelta = ORPHAN_AGE,
        file_age: timedelta = FILE_AGE,
    ) -> None:
        """Leave younger objects and younger files alone."""
        self._store = store
        self._objects = objects
        self._orphan_age = orphan_age
        self._file_age = file_age
        self._requests = asyncio.Semaphore(REQUESTS)

    async def find(self, seen: Seen) -> AsyncIterator[list[Finding]]:
        """Yield what is wrong, page by page, and count in `seen`. Raises Unavailable."""
        async for page in self._find_orphans(seen):
            yield page
        async for page in self._find_damaged_files(seen):
            yield page

    async def mend(self, findings: Sequence[Finding]) -> list[Finding]:
        """Mend those of the findings that are still so, except a wrong size. Return them. Raises Unavailable."""
        orphans = [each for each in findings if each.problem == "object_without_file"]
        lost = [each for each in findings if each.problem == "file_without_object"]
        return await self._delete_objects(orphans) + await self._give_up_files(lost)

    async def _find_orphans(self, seen: Seen) -> AsyncIterator[list[Finding]]:
        async for page in self._objects.list_pages():
            named = {each.key: parsed[1] for each in page if (parsed := parse_file_key(each.key)) is not None}
            known = await self._store.find_known([*named.values()])
            seen.objects += len(named)
            seen.foreign += len(page) - len(named)
            seen.known += len(known & named.keys())
            before = datetime.now(UTC) - self._orphan_age
            unknown = [each.key for each in page if each.key in named.keys() - known and each.modified <= before]
            heads = await asyncio.gather(*map(self._head, unknown))
            yield [describe_orphan(named[each.key], each) for each in heads if each is not None]

    async def _find_damaged_files(self, seen: Seen) -> AsyncIterator[list[Finding]]:
        after = FIRST
        while files := await self._store.list_complete(after, self._file_age, PAGE):
            after = files[-1].id
            seen.files += len(files)
            heads = await asyncio.gather(*(self._head(file.key) for file in files))
            damaged = {
                file: head for file, head in zip(files, heads, strict=True) if head is None or head.size != file.size
            }
            complete = await self._store.find_complete([file.id for file in damaged])
            yield [describe_damage(file, head) for file, head in damaged.items() if file in complete]

    async def _delete_objects(self, findings: Sequence[Finding]) -> list[Finding]:
        known = await self._store.find_known([parse(each) for each in findings])
        orphans = [each for each in findings if each.key not in known]
        failed = await self._objects.delete_each([each.key for each in orphans])
        return [each for each in orphans if each.key not in failed]

    async def _give_up_files(self, findings: Sequence[Finding]) -> list[Finding]:
        heads = await asyncio.gather(*(self._head(each.key) for each in findings))
        lost = {parse(each): each for each, head in zip(findings, heads, strict=True) if head is None}
        return [lost[each] for each in await self._store.give_up([*lost], self._file_age)] if lost else []

    async def _head(self, key: str) -> ObjectInfo | None:
        async with self._requests:
            try:
                return await self._objects.head(key)
            except StoreNotFound:
                return None


def describe_orphan(file_id: UUID, found: ObjectInfo) -> Finding:
    shown = ids.encode(ids.Kind.FILE, file_id)
    return Finding(problem="object_without_file", file_id=shown, key=found.key, size=found.size, expected=None)


def describe_damage(file: CompleteFile, found: ObjectInfo | None) -> Finding:
    return Finding(
        problem="file_without_object" if found is None else "wrong_size",
        file_id=ids.encode(ids.Kind.FILE, file.id),
        key=file_key(file.tenant_id, file.id),
        size=None if found is None else found.size,
        expected=file.size,
    )


def parse(finding: Finding) -> UUID:
    parsed = parse_file_key(finding.key)
    assert parsed is not None, "findings are about files"
    return parsed[1]
