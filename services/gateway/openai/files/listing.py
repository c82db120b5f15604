"""Lists a tenant's files: those that were uploaded, and those that are read from batches."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from services.gateway.files.store import FileRow
from services.gateway.http.pagination import Cursor
from services.gateway.http.validation.timestamps import EARLIEST, LATEST
from services.gateway.openai.batches.store import BatchFiles, RequestStore
from services.gateway.openai.files.schemas import OpenAIFile
from services.gateway.openai.files.store import USER_DATA, NamedFileStore
from services.gateway.openai.ids import Prefix, encode

BATCH_OUTPUT = "batch_output"
NAMES = {Prefix.OUTPUT: "output", Prefix.ERRORS: "errors"}
LEAST, MOST = UUID(int=0), UUID(int=2**128 - 1)


class Place(NamedTuple):
    """The place of a file in the list, oldest first. The two files of a batch have its time and its id."""

    created_at: datetime
    id: UUID
    rank: int = 0  # of the prefix, among files with one id


RANKS = {Prefix.FILE: 0, Prefix.ERRORS: 1, Prefix.OUTPUT: 2}
OLDEST, NEWEST = Place(EARLIEST, LEAST, -1), Place(LATEST, MOST, len(RANKS))


class Listed(NamedTuple):
    place: Place
    file: OpenAIFile


class FileListing:
    def __init__(self, files: NamedFileStore, batches: RequestStore) -> None:
        self._files = files
        self._batches = batches

    async def list(
        self, tenant_id: UUID, after: Place, limit: int, *, purpose: str | None, oldest_first: bool
    ) -> Sequence[OpenAIFile]:
        """Return up to `limit` files after a place of the list."""
        found: list[Listed] = []
        if purpose != BATCH_OUTPUT:
            cursor = Cursor(after.created_at, after.id)
            rows = await self._files.list_files(tenant_id, cursor, limit, purpose=purpose, oldest_first=oldest_first)
            found += [Listed(Place(row.created_at, row.id), view_upload(row)) for row in rows]
        if purpose in (None, BATCH_OUTPUT):
            cursor = Cursor(after.created_at, LEAST if oldest_first else MOST)  # its other file may be next
            batches = await self._batches.list_files(tenant_id, cursor, limit + 1, oldest_first=oldest_first)
            found += [each for batch in batches for each in list_outputs(batch)]
        return take(found, after, limit, oldest_first=oldest_first)


def take(found: Sequence[Listed], after: Place, limit: int, *, oldest_first: bool) -> list[OpenAIFile]:
    """Return the files after a place, in order. Pure."""
    beyond = [each for each in found if (each.place > after if oldest_first else each.place < after)]
    beyond.sort(key=lambda each: each.place, reverse=not oldest_first)
    return [each.file for each in beyond[:limit]]


def list_outputs(batch: BatchFiles) -> Iterator[Listed]:
    """Yield the files that a batch has. Pure."""
    if batch.has_errors:
        yield Listed(place_output(Prefix.ERRORS, batch), view_output(Prefix.ERRORS, batch))
    if batch.has_output:
        yield Listed(place_output(Prefix.OUTPUT, batch), view_output(Prefix.OUTPUT, batch))


def place_output(prefix: Prefix, batch: BatchFiles) -> Place:
    return Place(batch.created_at, batch.id, RANKS[prefix])


def view_upload(row: FileRow) -> OpenAIFile:
    shown = encode(Prefix.FILE, row.id)
    return OpenAIFile(
        id=shown,
        bytes=row.size,
        created_at=int(row.created_at.timestamp()),
        expires_at=None if row.job_id else int(row.expires_at.timestamp()),
        filename=row.name or shown,
        purpose=row.purpose or USER_DATA,
    )


def view_output(prefix: Prefix, batch: BatchFiles) -> OpenAIFile:
    return OpenAIFile(
        id=encode(prefix, batch.id),
        bytes=0,
        created_at=int(batch.created_at.timestamp()),
        expires_at=None,
        filename=f"{encode(Prefix.BATCH, batch.id)}_{NAMES[prefix]}.jsonl",
        purpose=BATCH_OUTPUT,
    )
