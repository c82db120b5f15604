"""The decoder's streams: they share each step of the network, and their places."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.model_programs import load

scheduler = load("decoder/1/scheduler.py")
JOIN_SECONDS = 10.0


class Network:
    """The next token is the last one plus one. It remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], list[list[int]], list[int]]] = []

    def next_tokens(self, places: list[int], tokens: list[list[int]], begin: list[int]) -> list[int]:
        self.calls.append((places, tokens, begin))
        return [taken[-1] + 1 for taken in tokens]


class Reader:
    """Someone who reads a stream, and cancels it after some tokens."""

    def __init__(self, prompt: list[int], tokens: int, cancel_after: int | None = None) -> None:
        self.received: list[int] = []
        self.ended = 0
        self._cancel_after = cancel_after
        self.stream: Any = scheduler.Stream(prompt, tokens, self.received.append, self._end, self._is_canceled)

    def _end(self) -> None:
        self.ended += 1

    def _is_canceled(self) -> bool:
        return self._cancel_after is not None and len(self.received) >= self._cancel_after


def run(readers: list[Reader], places: int, network: Network | None = None) -> list[float]:
    """Run all these streams to their ends; return what was spent."""
    spent: list[float] = []
    ticks: Iterator[int] = iter(range(10_000))
    streams = scheduler.Scheduler((network or Network()).next_tokens, places, spent.append, lambda: next(ticks))
    for reader in readers:
        streams.add(reader.stream)
    streams.stop()
    thread = threading.Thread(target=streams.run, daemon=True)
    thread.start()
    thread.join(JOIN_SECONDS)
    assert not thread.is_alive()
    return spent


def test_each_stream_gets_its_tokens_and_one_end() -> None:
    readers = [Reader([10, 11], 3), Reader([20], 1), Reader([30, 31, 32], 5)]
    run(readers, places=2)
    assert [reader.received for reader in readers] == [[12, 13, 14], [21], [33, 34, 35, 36, 37]]
    assert [reader.ended for reader in readers] == [1, 1, 1]


def test_streams_share_a_step() -> None:
    network = Network()
    run([Reader([10, 11], 3), Reader([20], 3)], places=2, network=network)
    prompts, steps = network.calls[:2], network.calls[2:]
    assert [tokens for _, tokens, _ in prompts] == [[[10, 11]], [[20]]]
    assert [(tokens, begin) for _, tokens, begin in steps] == [([[12], [21]], [2, 1]), ([[13], [22]], [3, 2])]


def test_a_place_goes_to_the_next_stream() -> None:
    network = Network()
    run([Reader([10], 2), Reader([20], 2), Reader([30], 2)], places=1, network=network)
    assert {place for places, _, _ in network.calls for place in places} == {0}
    assert [begin for _, _, begin in network.calls] == [[0], [1]] * 3


def test_a_canceled_stream_ends_and_leaves_its_place() -> None:
    canceled, other = Reader([10], 1000, cancel_after=2), Reader([20], 3)
    run([canceled, other], places=1)
    assert (canceled.received, canceled.ended) == ([11, 12], 1)
    assert (other.received, other.ended) == ([21, 22, 23], 1)


def test_a_stream_that_is_canceled_while_it_waits_gets_nothing() -> None:
    canceled = Reader([10], 5, cancel_after=0)
    run([canceled], places=1)
    assert (canceled.received, canceled.ended) == ([], 1)


def test_the_time_in_the_network_is_spent() -> None:
    assert run([Reader([10], 3)], places=1) == [1, 1, 1]  # each look at the clock is a tick later


def test_too_many_waiting_streams_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "WAITING", 2)
    streams = scheduler.Scheduler(Network().next_tokens, 1, lambda _seconds: None, lambda: 0.0)
    for _ in range(2):
        streams.add(Reader([1], 1).stream)
    with pytest.raises(scheduler.Full, match="2 streams wait already"):
        streams.add(Reader([1], 1).stream)
