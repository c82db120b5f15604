"""Runs a model on the items of a file: submits chunks of them as batches, and writes results as they come."""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from charonia import Charonia
from charonia.calls import Deadline
from charonia.cli.batch.bar import Bar
from charonia.cli.batch.chunks import Entry, ItemFile
from charonia.cli.batch.refusals import assign
from charonia.cli.batch.results import ResultFile, ResultLine, make_line, make_refusal
from charonia.errors import (
    CharoniaError,
    Conflict,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidRequest,
    InvalidResponse,
    RateLimited,
    ServerError,
    TooLarge,
    Unavailable,
)
from charonia.inputs import EncodedItem
from charonia.journal import Journal
from charonia.journal_records import Beginning, Chunk, Dropped, Planned, Submitted
from charonia.ordering import WINDOW, Ordering
from charonia.results import make_done

FLIGHTS = 16  # batches at a time
MOST_ITEMS = 1000  # of one batch
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0  # seconds for the oldest batch, while others may end before it
PATIENCE = 3600.0  # seconds without an answer of the gateway
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between tries
# They pass. The library has repeated the call for a while already.
PASSING = (ConnectionFailed, DeadlineExceeded, InvalidResponse, RateLimited, Unavailable, ServerError, Conflict)


class Task(NamedTuple):
    """What to run on each item: the model, and the other arguments of the submits.

    If `ordered`, the results are written in the order of the items.
    """

    model: str
    fields: Mapping[str, Any]
    concurrency: int
    ordered: bool = False


class Flight:
    """A submitted batch. `missing` has the items without a result, by their positions in the batch."""

    def __init__(self, batch_id: str, size: int, missing: dict[int, tuple[int, str | None]]) -> None:
        self.batch_id = batch_id
        self.size = size
        self.missing = missing
        self.pause = FIRST_WAIT
        self.next_read = 0.0


class Run:
    """One run of a task. It can be killed at any moment, and another one goes on."""

    def __init__(
        self, client: Charonia, task: Task, items: ItemFile, journal: Journal, results: ResultFile, bar: Bar
    ) -> None:
        self._client = client
        self._task = task
        self._items = items
        self._journal = journal
        self.results = results
        self.bar = bar
        self._size = max(1, min(MOST_ITEMS, math.ceil(task.concurrency / 4)))
        self._next, self._offset = 0, 0  # the first item that is not planned, and its byte
        self._pending: tuple[Planned, list[Entry]] | None = None  # planned, and not submitted for all we know
        self._flights: deque[Flight] = deque()
        self._patience = Deadline(PATIENCE)
        self._order: Ordering[ResultLine] | None = Ordering() if task.ordered else None
        self.has_begun = False

    @property
    def batches(self) -> list[str]:
        """The ids of the batches that lack results."""
        return [each.batch_id for each in self._flights]

    def resume(self, beginning: Beginning) -> None:
        """Find out what an earlier run has done. Raise ResumeError if this one must not go on with it."""
        if not self._journal.begin(beginning):
            return
        for chunk in self._journal.list_chunks():
            self._items.check(chunk)
            self._next, self._offset = chunk.planned.first + chunk.planned.count, chunk.planned.end
            self.has_begun = True
        written = self.results.scan(self._next)
        if self._order is not None:
            self._order.next = self.results.written
        for chunk in self._journal.list_chunks():
            if not all(written[chunk.planned.first : chunk.planned.first + chunk.planned.count]):
                self._reopen(chunk, written)
        self.results.flush()

    def _reopen(self, chunk: Chunk, written: bytearray) -> None:
        """Go on with a chunk that lacks results."""
        planned, submitted = chunk
        if submitted is None:
            self._journal.check_age(planned)
            self._pending = planned, self._items.read(planned)
            return
        names = self._items.read_names(planned)
        missing: dict[int, tuple[int, str | None]] = {}
        position = 0
        for index, name in enumerate(names, planned.first):
            if (failure := submitted.refused.get(index)) is not None:
                if not written[index]:
                    self._write(make_refusal(index, name, failure))
                continue
            if not written[index]:
                missing[position] = index, name
            position += 1
        if missing and submitted.batch is not None:
            self._flights.append(Flight(submitted.batch, position, missing))

    def forget(self) -> None:
        """Delete the files of a run whose first submit was refused."""
        self._journal.remove()
        self.results.path.unlink()

    def finish(self) -> None:
        """Return once each item has its line. Raise APIError or InvalidArgument if it cannot go on."""
        tries = 0
        while True:
            error = self._attempt(self._launch)
            if error is None and not self._flights:
                return
            error = self._attempt(self._collect) or error
            tries = 0 if error is None else tries + 1
            if error is None:
                self.bar.end_outage()
            else:
                self.bar.show_outage(error)
                time.sleep(choose_pause(tries, error))

    def _attempt(self, step: Callable[[], None]) -> CharoniaError | None:
        """Take a step. Return the error if it passes with time. Raise it if it lasts too long."""
        try:
            step()
        except PASSING as error:
            if not self._patience.left:
                raise
            return error
        return None

    def _launch(self) -> None:
        """Submit chunks while there is room for them."""
        while self._has_room():
            if self._pending is None:
                self._pending = self._items.plan(self._next, self._offset, self._size)
                if self._pending is None:
                    return
                planned = self._pending[0]
                self._journal.append(planned)
                self._next, self._offset = planned.first + planned.count, planned.end
            self._submit(*self._pending)
            self._pending = None

    def _has_room(self) -> bool:
        missing = sum(len(each.missing) for each in self._flights)
        if not missing:
            return True
        if self._order is not None and self._next - self._order.next >= WINDOW * self._task.concurrency:
            return False
        return missing + self._size <= self._task.concurrency and len(self._flights) < FLIGHTS

    def _submit(self, planned: Planned, entries: list[Entry]) -> None:
        """Submit a chunk. If the gateway refuses it as a whole, plan smaller ones."""
        sent = [each for each in entries if each.encoded is not None]
        refused = {each.number: each.failure for each in entries if each.failure is not None}
        batch_id = None
        if sent:
            lines = [each.encoded for each in sent]
            try:
                batch_id = self._create(lines, planned.key)
            except (InvalidRequest, TooLarge) as error:
                failures = assign(error, len(sent))
                if failures is None:
                    self._journal.append(Dropped())
                    self._next, self._offset = planned.first, planned.start
                    self._size = max(1, len(entries) // 2)
                    return
                refused |= {each.number: failure for each, failure in zip(sent, failures)}  # noqa: B905 -- same length
            self._patience.renew()
        if batch_id is not None:  # at once: Ctrl-C names it
            missing = {position: (each.number, each.custom_id) for position, each in enumerate(sent)}
            self._flights.append(Flight(batch_id, len(sent), missing))
        self._journal.append(Submitted(batch_id, refused))
        self.has_begun = True
        for each in entries:
            if each.number in refused:
                self._write(make_refusal(each.number, each.custom_id, refused[each.number]))
        self.results.flush()

    def _create(self, lines: list[EncodedItem | None], key: str) -> str:
        return self._client.batches.create(self._task.model, lines, idempotency_key=key, **self._task.fields).id

    def _collect(self) -> None:
        """Wait a moment for the oldest batch. Write what has ended, and forget batches that have."""
        for number, flight in enumerate(list(self._flights)):
            batch = self._client.batches.get(flight.batch_id, wait=0.0 if number else flight.pause)
            self._patience.renew()
            is_over = batch.ended == batch.total
            has_news = batch.ended > flight.size - len(flight.missing)
            if is_over or (has_news and time.monotonic() >= flight.next_read):
                self._read(flight)
                flight.next_read = time.monotonic() + flight.pause
            if not number:
                flight.pause = min(2 * flight.pause, LONGEST_WAIT)
            if not flight.missing:
                self._flights.remove(flight)
            elif is_over:  # a job was queued again at this moment
                time.sleep(FIRST_PAUSE)

    def _read(self, flight: Flight) -> None:
        """Write the results of a batch so far."""
        try:
            for line in self._client.batches.results(flight.batch_id, start=min(flight.missing), partial=True):
                if (names := flight.missing.get(line.index)) and (done := make_done(names[0], None, line)):
                    self._write(make_line(done, names[1]))
                    del flight.missing[line.index]
        finally:
            self.results.flush()

    def _write(self, line: ResultLine) -> None:
        for each in [line] if self._order is None else self._order.add(line.index, line):
            self.results.write(each)
        self.bar.show(self.results.written, self.results.failed)


def choose_pause(tries: int, error: CharoniaError) -> float:
    """Return the seconds until the next try, after `tries` tries in a row. Pure."""
    asked = getattr(error, "retry_after", None) or 0.0
    return min(LONGEST_PAUSE, max(asked, FIRST_PAUSE * 2.0 ** min(tries - 1, 10)))
