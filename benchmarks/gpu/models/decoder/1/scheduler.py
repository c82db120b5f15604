"""Runs many streams at the same time: each step of the network gives every stream its next token.

A stream that comes later joins at the next step, and one that ends leaves its place to the next.
"""

import queue
from dataclasses import dataclass
from typing import Any

WAITING = 1000  # streams without a place; one more is refused


class Full(Exception):
    """Too many streams wait."""


@dataclass(eq=False)
class Stream:
    """`send` takes a token, and `end` is called after the last one. `is_canceled` says whether nobody reads it."""

    prompt: list[int]
    tokens: int
    send: Any
    end: Any
    is_canceled: Any
    place: int = -1
    position: int = 0
    last: int = 0
    sent: int = 0


class Scheduler:
    """`next_tokens(places, tokens, begin)` is the network; `spend` gets the seconds of each of its calls."""

    def __init__(self, next_tokens, places, spend, clock):
        self._next_tokens, self._spend, self._clock = next_tokens, spend, clock
        self._free = list(range(places))
        self._running = []
        self._stopped = False
        self._waiting = queue.Queue(WAITING)

    def add(self, stream):
        """Let a stream wait for its place; raise Full if too many wait."""
        try:
            self._waiting.put_nowait(stream)
        except queue.Full:
            raise Full(f"{WAITING} streams wait already: try again later") from None

    def stop(self):
        """Let run() end after the streams that were added before."""
        self._waiting.put(None)

    def run(self):
        """Run streams until stop() is called and they have ended; without any, wait for the next one."""
        while self._admit():
            self._step()

    def _admit(self):
        """Begin as many streams as there are places for; return whether to go on."""
        while self._free and not self._stopped:
            try:
                stream = self._waiting.get(block=not self._running)
            except queue.Empty:
                break
            if stream is None:
                self._stopped = True
            else:
                stream.place = self._free.pop()
                self._running.append(stream)
                self._advance([stream], [stream.prompt])
        return bool(self._running) or not self._stopped

    def _step(self):
        """Give each stream its next token."""
        if running := list(self._running):
            self._advance(running, [[stream.last] for stream in running])

    def _advance(self, streams, tokens):
        began = self._clock()
        found = self._next_tokens([each.place for each in streams], tokens, [each.position for each in streams])
        self._spend(self._clock() - began)
        for stream, taken, token in zip(streams, tokens, found, strict=True):
            stream.position += len(taken)
            stream.last = token
            if not stream.is_canceled():
                stream.send(token)
                stream.sent += 1
            if stream.is_canceled() or stream.sent == stream.tokens:
                stream.end()
                self._running.remove(stream)
                self._free.append(stream.place)
