"""Keeps the model catalogue current, and each model's gate open only while Triton can run it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase

from common.errors import Unavailable
from common.jobs import Priority
from common.logs import Log
from common.outbox import JOBS_TOGETHER
from services.dispatcher.slots import Slots
from services.dispatcher.store import Store
from services.dispatcher.triton import Model, Triton, TritonDown
from services.dispatcher.turns import Turns

PROBE_SECONDS = 0.3  # between looks while something is away
DEEPER = 2  # times as many slots for a quick model: whoever is behind them waits for two batches more
REFRESH_SECONDS = 10.0  # a row not refreshed for three times as long counts as not ready

log = Log("catalogue")


class Runnable:
    """A model this dispatcher runs: its versions, its slots, and a gate that is open while it can run."""

    def __init__(self, name: str, alarm: asyncio.Event) -> None:
        """`alarm` asks for a look at Triton."""
        self.name = name
        self.alarm = alarm
        self.versions: dict[str, Model] = {}
        self.ready: set[str] = set()
        self.described_at: dict[str, float] = {}
        self.slots = Slots(1)
        self.turns = Turns()
        self.gate = asyncio.Event()

    async def acquire(self, priority: Priority) -> None:
        """Returns with a slot held while the model can run."""
        while True:
            await self.gate.wait()
            await self.slots.acquire(priority)
            if self.gate.is_set():
                return
            self.slots.release()

    def suspect(self) -> None:
        """Closes the gate until the next look at Triton, which comes at once."""
        self.gate.clear()
        self.alarm.set()

    def is_fresh(self, version: str) -> bool:
        """Whether what is known of a version was asked for lately: a reload need not show as an outage."""
        return time.monotonic() - self.described_at[version] < REFRESH_SECONDS

    def doubt(self) -> None:
        """Asks for what it declares again, at once: it answered something else."""
        self.described_at = dict.fromkeys(self.described_at, float("-inf"))
        self.alarm.set()

    def describe(self, version: str | None) -> Model | None:
        """What a version declares, or the newest known where none is asked for."""
        if version is not None:
            return self.versions.get(version)
        newest = max(self.ready or self.versions, key=order_version, default=None)
        return None if newest is None else self.versions[newest]

    def count_slots(self) -> int:
        """Twice what Triton runs at once, so that its batcher always has the next batch at hand."""
        return max(model.instances * max(1, model.max_batch_size) for model in self.versions.values()) * 2

    def count_held(self) -> int:
        """Messages of a queue to hold, unacknowledged: half as many as there are slots, for no more jobs than those.

        What waits here no other dispatcher can run.
        """
        batch = max(model.max_batch_size for model in self.versions.values())
        return max(1, min(self.slots.size // 2, self.slots.size // max(1, min(batch, JOBS_TOGETHER))))


def order_version(version: str) -> tuple[int, str]:
    return (int(version), "") if version.isdecimal() else (-1, version)


class Catalogue:
    def __init__(
        self,
        triton: Triton,
        store: Store,
        adopt: Callable[[Runnable], Awaitable[None]],
        *,
        interval: float,
        slots: int,
        grace: float,
        patterns: Sequence[str] = ("*",),
    ) -> None:
        """`adopt` makes a new model's queues and consumes them; `slots` of 0 means what Triton can use; a version that
        no server has had for the `grace` (seconds) leaves the catalogue; models that fit no pattern are passed over."""
        self.triton = triton
        self.store = store
        self.adopt = adopt
        self.interval = interval
        self.slots = slots
        self.grace = grace
        self.patterns = patterns
        self.models: dict[str, Runnable] = {}
        self.up = False
        self.alarm = asyncio.Event()
        self.saved_at = -REFRESH_SECONDS
        self.saved: list[tuple[Model, bool]] = []

    async def check(self) -> bool:
        """For /readyz: whether Triton answers."""
        return self.up

    async def watch(self) -> None:
        """Looks at Triton again and again, until cancelled."""
        while True:
            self.alarm.clear()
            steady = await self.look()
            try:
                async with asyncio.timeout(self.interval if steady else PROBE_SECONDS):
                    await self.alarm.wait()
                await asyncio.sleep(PROBE_SECONDS)  # many alarms make one look
            except TimeoutError:
                continue

    async def look(self) -> bool:
        """Takes in what Triton has now and writes it down; whether all is well."""
        was_up = self.up
        try:
            ready = self.pick(await self.triton.list_ready())
            await self.learn(ready)
            self.up = True
        except TritonDown as error:
            ready, self.up = set(), False
            if was_up or not self.models:
                log.warning("triton.down", error=error)
        if self.up and not was_up:
            log.info("triton.up", models=len({name for name, _ in ready}))
        self.mark(ready)
        try:
            await self.save()
        except Unavailable as error:
            log.warning("catalogue.not_saved", error=error)
            return False
        return self.up and not self.triton.trust.is_lost and all(model.gate.is_set() for model in self.models.values())

    def pick(self, ready: set[tuple[str, str]]) -> set[tuple[str, str]]:
        return {model for model in ready if any(fnmatchcase(model[0], pattern) for pattern in self.patterns)}

    async def learn(self, ready: set[tuple[str, str]]) -> None:
        """Describes each version that has become ready and adopts each model that is new."""
        for name, version in sorted(ready):
            known = self.models.get(name)
            if known is not None and version in known.ready and known.is_fresh(version):
                continue
            described = await self.triton.describe(name, version)
            if described is None:
                continue
            model = known or Runnable(name, self.alarm)
            model.versions[version] = described
            model.described_at[version] = time.monotonic()
            size = self.slots or model.count_slots()
            model.slots.resize(size, 0 if self.slots else size * DEEPER)
            if known is None:
                self.models[name] = model
                await self.adopt(model)

    def mark(self, ready: set[tuple[str, str]]) -> None:
        for model in self.models.values():
            model.ready = {version for version in model.versions if (model.name, version) in ready}
            if model.ready and not model.gate.is_set():
                log.info("model.ready", model=model.name, slots=model.slots.size)
                model.gate.set()
            elif not model.ready and model.gate.is_set():
                log.warning("model.away", model=model.name)
                model.gate.clear()

    async def save(self) -> None:
        rows = [
            (described, version in model.ready)
            for model in self.models.values()
            for version, described in model.versions.items()
        ]
        if rows != self.saved or time.monotonic() - self.saved_at > min(REFRESH_SECONDS, self.grace):
            await self.store.save_models(rows)
            if self.up:
                for name, version in await self.store.retire_models(self.grace):
                    log.warning("model.retired", model=name, version=version)
            self.saved, self.saved_at = rows, time.monotonic()
