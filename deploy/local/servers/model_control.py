"""Loads and unloads models of a Triton in explicit mode, over HTTP on loopback.

Each model is loaded by a call of its own. With `--load-model=*` the server opens no port until every model is loaded,
and a Python process that dies before it begins is waited for without end.

A load keeps one of the server's HTTP threads until it ends. The server gives a connection to any of its threads. So a
call may wait behind a load that never ends; it is sent again.
"""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote

from deploy.local.errors import NotReady
from deploy.local.processes.ports import HOST

CALL_SECONDS = 10.0
LOOK_SECONDS = 3.0  # for the index, and between two looks at it while models load
CALLS = 4  # of the same kind; all of them behind one load of 32 threads is one start in a million
LOAD_SECONDS = 600.0  # in which Triton answers to a load
WAIT_SECONDS = 90.0  # for the models of a server that starts
QUIET_SECONDS = 20.0  # without a model that was loaded, after which the others are waited for no longer
POLL_SECONDS = 0.05
READY, LOADING, UNAVAILABLE, UNKNOWN = "READY", "LOADING", "UNAVAILABLE", ""
UNLOADED = "unloaded"  # the reason of a model that was unloaded
KEY_HEADER = "charonia-repository-key"  # the dispatcher sends it, too: see services/dispatcher/triton/connection.py


class NoAnswer(NotReady):
    """The server took a call, and did not answer in time."""


@dataclass(frozen=True)
class IndexEntry:
    """A version of a model in the repository. `state` is empty for a model that nobody has loaded yet."""

    name: str
    version: str
    state: str
    reason: str


class ModelControl:
    """The models of the server that has this HTTP port, and gives access to them with this key."""

    def __init__(self, port: int, key: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._port = port
        self._key = key
        self._clock = clock

    def list_models(self) -> list[IndexEntry]:
        """Return all models of the repository, without hidden folders; raise NotReady if the server does not answer."""
        for _ in range(CALLS - 1):
            with suppress(NoAnswer):
                return self._read_index()
        return self._read_index()

    def _read_index(self) -> list[IndexEntry]:
        entries = [
            IndexEntry(each["name"], each.get("version", ""), each.get("state", UNKNOWN), each.get("reason", ""))
            for each in json.loads(self._post("index", LOOK_SECONDS))
        ]
        return [each for each in entries if each.state or not each.name.startswith(".")]

    def load(self, model: str, seconds: float = LOAD_SECONDS) -> None:
        """Load a model; raise NotReady, with Triton's reason, if it cannot be loaded."""
        self._post(f"models/{quote(model, safe='')}/load", seconds)

    def unload(self, model: str) -> None:
        """Begin to unload a model: requests in flight end first. Raises NotReady."""
        self._post(f"models/{quote(model, safe='')}/unload", CALL_SECONDS)

    def load_new(self, is_running: Callable[[], bool] = lambda: True) -> None:
        """Load every model that nobody has loaded, all at once. Wait until they are loaded or have failed.

        A model that takes long is loaded in the background. Return when the server no longer runs: a Python process
        that it has just started may keep its connections open.
        """
        names = sorted({each.name for each in self.list_models() if each.state == UNKNOWN})
        calls = {name: [self._begin_load(name)] for name in names}
        began = looked_at = quiet_since = self._clock()
        before = len(calls)
        while is_running() and calls:
            now = self._clock()
            calls = {name: loads for name, loads in calls.items() if all(load.is_alive() for load in loads)}
            if now > looked_at + LOOK_SECONDS:
                calls, looked_at = self._look(calls), now
            if len(calls) < before:
                before, quiet_since = len(calls), now
            if now > min(began + WAIT_SECONDS, quiet_since + QUIET_SECONDS):
                return
            time.sleep(POLL_SECONDS)

    def _look(self, calls: dict[str, list[threading.Thread]]) -> dict[str, list[threading.Thread]]:
        """Return the loads that are under way by the index. Send those again that the server has not begun."""
        states: defaultdict[str, set[str]] = defaultdict(set)
        try:
            for each in self.list_models():
                states[each.name].add(each.state)
        except NotReady:
            return calls
        under_way = {name: loads for name, loads in calls.items() if states[name] & {UNKNOWN, LOADING}}
        for name, loads in under_way.items():
            if states[name] == {UNKNOWN} and len(loads) < CALLS:
                loads.append(self._begin_load(name))
        return under_way

    def find_problems(self, *, is_managed: bool = False) -> dict[str, str]:
        """Return why models are not ready; raise NotReady if the server does not answer.

        `is_managed`: dispatchers load models when jobs wait for them, so one that is not loaded is no problem.
        """
        failed = [each for each in self.list_models() if each.state != READY]
        if is_managed:
            failed = [each for each in failed if each.state == UNAVAILABLE and each.reason != UNLOADED]
        return {each.name: explain(each) for each in failed}

    def _begin_load(self, model: str) -> threading.Thread:
        load = threading.Thread(target=self._try_load, args=(model,), daemon=True)
        load.start()
        return load

    def _try_load(self, model: str) -> None:
        try:
            self.load(model)
        except NotReady:
            return  # the index has the reason

    def _post(self, what: str, seconds: float) -> str:
        connection = HTTPConnection(HOST, self._port, timeout=seconds)
        try:
            connection.request("POST", f"/v2/repository/{what}", headers={KEY_HEADER: self._key})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except TimeoutError:
            raise NoAnswer(f"Triton has not answered within {seconds:g} s") from None
        except (OSError, HTTPException) as error:
            raise NotReady(f"Triton does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise NotReady(read_error(text))
        return text


def explain(entry: IndexEntry) -> str:
    """Return why a model is not ready."""
    if entry.state == UNKNOWN:
        return "its config.pbtxt is missing or wrong; Triton's log has the reason"
    if entry.state == LOADING:
        return "still loading; if that does not end, its model.py is missing or its process crashes: see Triton's log"
    return first_part(entry.reason) or entry.state.lower()


def read_error(text: str) -> str:
    """Return the message of an answer, without the trace of Python that may follow."""
    try:
        return first_part(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text


def first_part(message: str) -> str:
    return message.split("\n\nAt:\n")[0].strip()
