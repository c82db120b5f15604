"""Splits the items of a `map` into chunks, and writes down what is submitted if the run may be resumed."""

import functools
import hashlib
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from charonia._async.blocking import run_blocking
from charonia._async.files import AsyncFiles
from charonia.calls import NEVER, Deadline
from charonia.errors import CharoniaError, InvalidInput, InvalidRequest, ResumeError
from charonia.inputs import encode_body, encode_inputs, find_only_input, has_files, read_files
from charonia.journal import Journal
from charonia.journal_records import Dropped, Planned, Submitted
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.schemas import Failure

CHUNK_BYTES = 8 * 1024 * 1024  # of one batch, if more than one item is in it


class Entry(NamedTuple):
    """An item of a chunk: as it is sent, or why it cannot be."""

    number: int
    item: Any
    line: bytes
    error: CharoniaError | None = None


class Chunk(NamedTuple):
    """Items of one submit, and its Idempotency-Key. If they are `submitted` already, `batch` has those accepted."""

    entries: list[Entry]
    key: str
    submitted: bool = False
    batch: str | None = None

    @property
    def sent(self) -> list[Entry]:
        """The items that are in the batch, in its order."""
        return [each for each in self.entries if each.error is None]


class AsyncPlanner:
    """The chunks of one run. With a journal it begins with those of the earlier run."""

    def __init__(
        self, model: ModelInfo, items: Iterable[Any], max_body: int, files: AsyncFiles, journal: Journal | None
    ) -> None:
        self._model = model
        self._source = iter(enumerate(items))
        self._max_body = max_body
        self._files = None if journal else files  # an upload gives a line that is not the same in the next run
        self._journal = journal
        self._known = deque(journal.list_chunks() if journal else ())
        self._held: deque[Entry] = deque()  # encoded, and not in a chunk
        self.planned = 0  # items

    async def plan(self, most: int) -> Chunk | None:
        """Return the next chunk of up to `most` items, or None at the end. Raise ResumeError for other items."""
        if self._known:
            return await self._recall()
        entries = await self._take(most, CHUNK_BYTES)
        if not entries:
            return None
        chunk = Chunk(entries, uuid.uuid4().hex)
        now = datetime.now(timezone.utc)
        await self._note(Planned(entries[0].number, len(entries), digest_entries(entries), chunk.key, now))
        return chunk

    async def note_submitted(self, batch_id: str | None) -> None:
        """Write down that the latest chunk is this batch, or that no item of it can be submitted."""
        await self._note(Submitted(batch_id, {}))

    async def note_refused(self, chunk: Chunk, error: InvalidRequest) -> None:
        """Write down that the gateway refused the items of the latest chunk."""
        failure = Failure(error.code, error.detail)
        await self._note(Submitted(None, {each.number: failure for each in chunk.sent}))

    async def drop(self, chunk: Chunk) -> None:
        """Take back the latest chunk, which the gateway refused as a whole. Its items are planned anew."""
        self._held.extendleft(reversed(chunk.entries))
        self.planned -= len(chunk.entries)
        await self._note(Dropped())

    async def _note(self, record: Planned | Submitted | Dropped) -> None:
        if self._journal is not None:
            await run_blocking(functools.partial(self._journal.append, record))

    async def _recall(self) -> Chunk:
        """Return the next chunk of the earlier run."""
        assert self._journal is not None
        planned, submitted = self._known.popleft()
        entries = await self._take(planned.count, NEVER)
        if len(entries) != planned.count or digest_entries(entries) != planned.digest:
            last = planned.first + planned.count - 1
            text = f"the items {planned.first} to {last} are not those of the earlier run; give the same ones to go on"
            raise ResumeError(text, self._journal.path)
        if submitted is None:
            self._journal.check_age(planned)
            return Chunk(entries, planned.key)
        return Chunk([refuse(each, submitted) for each in entries], planned.key, submitted=True, batch=submitted.batch)

    async def _take(self, most: int, most_bytes: float) -> list[Entry]:
        """Return the next items, encoded."""
        entries: list[Entry] = []
        size = 0
        while len(entries) < most:
            if not self._held:
                if (following := next(self._source, None)) is None:
                    break
                self._held.append(await self._encode(*following))
            size += len(self._held[0].line)
            if entries and size > most_bytes:
                break
            entries.append(self._held.popleft())
        self.planned += len(entries)
        return entries

    async def _encode(self, number: int, item: Any) -> Entry:
        try:
            return Entry(number, item, await encode_item(self._model, item, self._max_body, files=self._files))
        except InvalidInput as error:
            return Entry(number, item, b"", error)


def digest_entries(entries: Iterable[Entry]) -> str:
    """Return the SHA-256 of what is sent of a chunk."""
    return hashlib.sha256(b"\n".join(each.line for each in entries)).hexdigest()


def refuse(entry: Entry, submitted: Submitted) -> Entry:
    """Return an item with the reason why the gateway refused it in the earlier run, if it did."""
    failure = submitted.refused.get(entry.number)
    return entry if failure is None else entry._replace(error=InvalidRequest(422, failure.code, failure.message))


async def encode_item(
    model: ModelInfo, item: Any, max_body: int, custom_id: str | None = None, *, files: AsyncFiles | None = None
) -> bytes:
    """Return the line of an item: its inputs, or the value of the model's only required input. Raise InvalidInput.

    Large files are uploaded, if `files` is given: each call then returns another line.
    """
    inputs: Mapping[str, Any] = item if isinstance(item, dict) else {find_only_input(model): item}
    if files is not None:
        inputs = await files._prepare(inputs, model, max_body, Deadline(NEVER))
    elif any(map(has_files, inputs.values())):
        inputs = await run_blocking(functools.partial(read_files, inputs, max_body))
    name = {} if custom_id is None else {"custom_id": custom_id}
    return encode_body({**name, "inputs": encode_inputs(model, inputs)}, max_body)
