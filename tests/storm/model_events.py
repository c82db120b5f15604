"""Reads from the logs of dispatchers which models stalled, and which they unloaded. No other interface shows it."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.storm.storm_log import ModelEvent, StormLog

POLL_SECONDS = 0.2
EVENTS = ("model.quarantined", "model.draining", "model.unloaded", "model.reloaded", "model.loaded")


class Line(msgspec.Struct, frozen=True):
    """The needed fields of a line."""

    event: str = ""
    model: str = ""
    reason: str = ""


async def watch_models(logs: Mapping[Path, str], log: StormLog, until: asyncio.Event) -> None:
    """Read until `until` is set. `logs` has the Triton of each dispatcher by the path of the dispatcher's log.

    An event is noted with the time when it was read: a dispatcher's clock may be wrong.
    """
    places = dict.fromkeys(logs, 0)
    while not until.is_set():
        for path, triton in logs.items():
            places[path] = read_on(path, triton, places[path], log)
        await asyncio.sleep(POLL_SECONDS)


def read_on(path: Path, triton: str, place: int, log: StormLog) -> int:
    """Note the events after a place in a file. Return the place after the last whole line."""
    with path.open("rb") as file:
        file.seek(place)
        text = file.read()
    lines, _, _ = text.rpartition(b"\n")
    for line in lines.splitlines():
        if any(event.encode() in line for event in EVENTS):
            found = msgspec.json.decode(line, type=Line)
            log.model_events.append(ModelEvent(time.time(), triton, found.event, found.model, found.reason))
    return place + len(lines) + bool(lines)
