"""Which load of a version Triton runs now. Pure.

A version that was loaded again may have other weights, so each load has an id. Triton has none. It has counters of
requests that begin at zero with each load, also if the version stayed ready meanwhile. So a counter below what it was
shows another load. So does one below what this dispatcher knows that it must be.

Two things hide a load. Other clients of Triton may send as many requests since as there were before. And Triton counts
a request of a decoupled model only when the model's `execute` returns, which may be long after the last response.
"""

import hashlib
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.reuse.choice import SETTING as REUSE_SECONDS
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.statistics import Totals

WEIGHTS = "charonia.weights"  # a parameter of config.pbtxt
SETTLE_SECONDS = 1  # after a response, until the counters have it
DECOUPLED_SETTLE_SECONDS = 60


class Load(NamedTuple):
    """A load, and the database's time when a dispatcher first saw it, if it is known."""

    id: UUID
    at: datetime | None


class SavedLoad(NamedTuple):
    """The load of a version as the dispatchers of one Triton share it.

    `executions`: successful requests when it was saved. `held`: another live dispatcher says that it still runs, or has
    just saved it.
    `is_old`: it was saved long ago, and is forgotten if nobody saves it again.
    """

    load: Load
    executions: int
    held: bool = False
    is_old: bool = False


class Reading(NamedTuple):
    """Triton's counters of a version. Of this dispatcher's own requests, they have all `settled` ones.

    They may also have those that are `unsettled`. Some count as neither: see OwnInferences.
    """

    totals: Totals
    settled: int
    unsettled: int


class OwnInferences:
    """Counts this dispatcher's inferences of one model that began since its newest load."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._epoch = 0
        self._running = 0
        self._recent: dict[int, Counter[str]] = defaultdict(Counter)  # successes by version, by the second of their end
        self._settled: Counter[str] = Counter()  # earlier successes by version
        self._settle_seconds = SETTLE_SECONDS

    @contextmanager
    def run(self) -> Iterator[Callable[[str], None]]:
        """Count an inference. Call what this yields with the version that answered, if it succeeds."""
        epoch = self._epoch
        self._running += 1
        try:
            yield lambda version: self._note_success(version, epoch)
        finally:
            self._running -= epoch == self._epoch

    def forget_unsettled(self) -> Counter[str]:
        """Count no inference that began before now, unless it is settled: an earlier load may have answered it.

        Return the settled ones by version.
        """
        self._epoch += 1
        self._running = 0
        self._recent.clear()
        return Counter(self._settled)

    def mark(self, *, decoupled: bool) -> Counter[str]:
        """Return, by version, how many successes the counters have if they are read from now on."""
        self._settle_seconds = DECOUPLED_SETTLE_SECONDS if decoupled else SETTLE_SECONDS
        self._settle()
        return Counter(self._settled)

    def read(self, version: str, totals: Totals, mark: Counter[str]) -> Reading:
        """Return a reading of a version that was made after this mark, just now."""
        since = self._settled[version] - mark[version] + sum(each[version] for each in self._recent.values())
        return Reading(totals, mark[version], since + self._running)

    def _note_success(self, version: str, epoch: int) -> None:
        if epoch == self._epoch:
            self._recent[math.ceil(self._clock())][version] += 1
            self._settle()

    def _settle(self) -> None:
        """Count as settled what ended long enough ago."""
        while self._recent and (second := next(iter(self._recent))) <= self._clock() - self._settle_seconds:
            self._settled += self._recent.pop(second)


class Verdict(Enum):
    """What to do about the load of a version, given what the dispatchers of its Triton saved."""

    KEEP = "keep"
    SAVE = "save"  # it is a new load, or its row is missing
    TAKE = "take"  # the load is the saved one


class LoadTracker:
    """Follows the loads of one version in one Triton, from reading to reading.

    `look` takes a reading. Then `compare` says what to do about it, and `begin` follows another load. Only a load that
    is saved is known: all dispatchers of a Triton must give it the same id.
    """

    def __init__(self) -> None:
        self.load: Load | None = None
        """The load that runs. None: it is not known."""
        self.executions = 0
        """The successful requests in the last reading."""
        self._last_id: UUID | None = None  # of the last known load
        self._before: Totals | None = None  # the counters of the last reading, if they are of the same load
        self._base = 0  # how many own successes were settled when the load began
        self._others = 0  # how many of the successes since are of others, at least

    @property
    def was_known(self) -> bool:
        """Whether there was a load whose id was known."""
        return self._last_id is not None

    def end(self) -> None:
        """Note that the load is over: Triton said that the version is not ready, or it declares something else."""
        self.load = None

    def look(self, reading: Reading) -> None:
        """Take a reading. It may show that the load is over."""
        others = reading.totals.successes - (reading.settled - self._base)
        if others < self._others or (self._before is not None and fell(self._before, reading.totals)):
            self.end()
        self._others = max(self._others, others - reading.unsettled)
        self._before, self.executions = reading.totals, reading.totals.successes

    def compare(self, saved: SavedLoad | None) -> Verdict:
        """Return what to do about the load, given what is saved."""
        if saved is None:
            return Verdict.SAVE
        if self.load is not None:
            return Verdict.KEEP if saved.load.id == self.load.id else Verdict.TAKE
        is_over = saved.load.id == self._last_id
        return Verdict.SAVE if is_over or not self._may_run(saved) else Verdict.TAKE

    def begin(self, load: Load, settled: int) -> None:
        """Follow another load. From now on, own inferences count that begin later: none of them is `settled` yet."""
        if self.load is not None:  # another dispatcher saw it first, so the last reading may be of the load before
            self._before, self.executions = None, 0
        self.load, self._last_id = load, load.id
        self._base, self._others = settled, 0

    def _may_run(self, saved: SavedLoad) -> bool:
        """Return whether a load that this dispatcher does not know may be the one that runs.

        One without requests may be from before this process started. It has no results. So nothing is lost by a new id,
        unless another dispatcher has jobs of it.
        """
        is_vouched_for = self.executions > 0 or self.was_known or saved.held
        return self.executions >= saved.executions and is_vouched_for


def fell(before: Totals, now: Totals) -> bool:
    """Return whether a counter fell."""
    return any(new < old for new, old in zip(now, before, strict=True))


def name_load(model: ModelVersion) -> UUID | None:
    """Return the id of all loads of these weights, if the model's configuration names them.

    It is a digest of the name and of what the version declares. So it is the same in all Tritons.
    """
    if not model.settings.get(WEIGHTS):
        return None
    settings = {name: value for name, value in model.settings.items() if name != REUSE_SECONDS}
    declared = (model.name, model.version, model.decoupled, model.inputs, model.outputs, sorted(settings.items()))
    return UUID(bytes=hashlib.sha256(msgspec.msgpack.encode(declared)).digest()[:16])


def find_load(before: Mapping[str, Load], after: Mapping[str, Load], version: str) -> UUID | None:
    """Return the load that made a result of a version, given the loads before and after. None: there were two."""
    first, last = before.get(version), after.get(version)
    return first.id if first is not None and last is not None and first.id == last.id else None
