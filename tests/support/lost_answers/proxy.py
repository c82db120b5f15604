"""A proxy before PostgreSQL that lets a statement commit and loses its answer.

Once the server has answered, the client's connection ends, or stays silent. For a statement in a transaction the proxy
loses that answer, with which the transaction is gone, and in a later transaction the answer of the COMMIT.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from deploy.local.processes.ports import HOST
from tests.support.lost_answers.messages import (
    CANCEL_REQUEST,
    Message,
    count_rows,
    read_message,
    read_start,
    split_strings,
)

COMPLETE = (b"C", b"s")  # a command is complete, or has sent the one row that the client asked for
STOP_SECONDS = 30.0  # also for the start
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Place(Enum):
    """Which answer is lost."""

    ALONE = "of a statement that is a transaction of its own"
    INSIDE = "of a statement in a transaction, which rolls back"
    COMMIT = "of the commit of its transaction"


class Fault(NamedTuple):
    """An answer that is lost once."""

    statement: str
    place: Place


class Loss(NamedTuple):
    """A lost answer: when its transaction began, and when it was lost. Times are Unix times."""

    fault: Fault
    began: float
    at: float


class AnswerLoser:
    """Listens inside `with`, in a thread of its own. `statements` are the texts to know, by name."""

    def __init__(self, server_port: int, port: int, statements: dict[str, str]) -> None:
        self.port = port
        self._server_port = server_port
        self._names = {text: name for name, text in statements.items()}
        self._armed: set[Fault] = set()
        self._is_silent = False
        self._lock = threading.Lock()
        self._fired: set[Fault] = set()  # of those that are armed
        self.lost: list[Loss] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._sessions: set[asyncio.Task[None]] = set()

    def arm(self, statements: Collection[str], *, silent: bool = False) -> None:
        """Lose the next answer of each of these statements that has rows, and then one of its commit. Forget others.

        A `silent` connection stays open until its client closes it.
        """
        with self._lock:
            self._is_silent = silent
            self._armed = {Fault(name, place) for name in statements for place in (Place.ALONE, Place.INSIDE)}
            self._fired.clear()

    def list_missing(self, statements: Collection[str]) -> list[Fault]:
        """Return what is still to be lost of these statements. An answer in one place is enough, with its commit."""
        with self._lock:
            places = {name: {place for statement, place in self._fired if statement == name} for name in statements}
            missing = [Fault(name, Place.ALONE) for name in statements if not places[name]]
            return missing + [Fault(name, Place.COMMIT) for name in statements if places[name] == {Place.INSIDE}]

    def is_armed(self, fault: Fault) -> bool:
        with self._lock:
            return fault in self._armed

    def fire(self, faults: Collection[Fault], rows: int, began: float) -> bool:
        """Return whether to lose an answer with this number of rows, of a transaction that began at this Unix time.

        Each fault happens once.
        """
        with self._lock:
            due = self._armed.intersection(faults)
            if not due or rows == 0:
                return False
            self._armed -= due
            self._fired |= due
            self.lost += [Loss(fault, began, time.time()) for fault in due]
            self._armed |= {Fault(fault.statement, Place.COMMIT) for fault in due if fault.place is Place.INSIDE}
            return True

    @property
    def is_silent(self) -> bool:
        with self._lock:
            return self._is_silent

    def name(self, text: str) -> str | None:
        return self._names.get(text)

    def __enter__(self) -> "AnswerLoser":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(STOP_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port, backlog=200)

    async def _stop(self) -> None:
        self._server.close()
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = asyncio.current_task()
        assert session is not None
        self._sessions.add(session)
        server: asyncio.StreamWriter | None = None
        try:
            with contextlib.suppress(OSError, EOFError):
                from_server, server = await asyncio.open_connection(HOST, self._server_port)
                await Session(self, (reader, writer), (from_server, server)).run()
        finally:
            self._sessions.discard(session)
            for each in (writer, server):
                if each is not None:
                    each.close()


class Session:
    """One connection."""

    def __init__(self, loser: AnswerLoser, client: Streams, server: Streams) -> None:
        self._loser = loser
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._prepared: dict[str, str | None] = {}
        self._bound: str | None = None
        self._in_transaction = False
        self._began = 0.0  # Unix time of the transaction
        self._at_commit: set[Fault] = set()  # due at the end of this transaction
        self._running: Fault | None = None  # of the statement that runs
        self._is_held = False
        self._held: list[Message] = []

    async def run(self) -> None:
        """Forward everything until a side closes its connection, or an answer is lost."""
        code, start = await read_start(self._from_client)
        while len(start) == 8:  # the request of TLS: the server here has none
            self._to_server.write(start)
            self._to_client.write(await self._from_server.readexactly(1))
            code, start = await read_start(self._from_client)
        self._to_server.write(start)
        if code == CANCEL_REQUEST:
            await self._from_server.read()
            return
        sides = [asyncio.create_task(self._forward_requests()), asyncio.create_task(self._forward_answers())]
        try:
            await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)

    async def _forward_requests(self) -> None:
        while True:
            message = await read_message(self._from_client)
            self._note_request(message)
            self._to_server.write(message.encode())
            await self._to_server.drain()

    def _note_request(self, message: Message) -> None:
        if message.kind in (b"E", b"Q") and not self._in_transaction:
            self._began = time.time()
        match message.kind:
            case b"P":
                name, text = split_strings(message.body, 2)
                self._prepared[name] = self._loser.name(text)
            case b"B":
                self._bound = self._prepared.get(split_strings(message.body, 2)[1])
            case b"E" if self._bound is not None:
                self._note_start(self._bound)
            case b"Q" if message.body == b"COMMIT;\0":
                self._is_held = bool(self._at_commit)
            case b"Q" if simple := self._loser.name(split_strings(message.body, 1)[0]):
                self._note_start(simple)

    def _note_start(self, statement: str) -> None:
        place = Place.INSIDE if self._in_transaction else Place.ALONE
        self._running = Fault(statement, place)
        self._is_held = self._loser.is_armed(self._running)

    async def _forward_answers(self) -> None:
        rows = 0
        while True:
            message = await read_message(self._from_server)
            self._held.append(message)
            rows += message.kind == b"D"
            if message.kind in COMPLETE:
                rows = max(rows, self._note_end(message, rows))
            if message.kind == b"Z" and self._is_held and self._is_lost(rows):
                if self._loser.is_silent:
                    await asyncio.Event().wait()  # until the client closes the connection
                return
            if message.kind == b"Z":
                self._note_ready(message.body)
                rows = 0
            if not self._is_held:
                for each in self._held:
                    self._to_client.write(each.encode())
                self._held.clear()
                await self._to_client.drain()

    def _note_end(self, message: Message, sent: int) -> int:
        """Note that a statement has ended, after this number of rows. Return how many it concerns: 1 for a COMMIT."""
        tag = split_strings(message.body, 1)[0] if message.body else ""
        if tag == "COMMIT":
            return 1
        rows = max(sent, count_rows(tag))
        if self._running is not None and self._running.place is Place.INSIDE:
            at_commit = Fault(self._running.statement, Place.COMMIT)
            if self._loser.is_armed(at_commit) and rows:
                self._at_commit.add(at_commit)
        return rows

    def _is_lost(self, rows: int) -> bool:
        """Return whether the answer that ends now is lost. An error is not: it has no command that completed."""
        if not any(message.kind in COMPLETE for message in self._held):
            return False
        return self._loser.fire([self._running] if self._running else self._at_commit, rows, self._began)

    def _note_ready(self, status: bytes) -> None:
        self._in_transaction = status != b"I"
        if not self._in_transaction:
            self._at_commit.clear()
        self._running, self._is_held = None, False
