"""Decides what one Triton holds, again and again, while this process is the elected one of its dispatchers."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from common.errors import Unavailable
from common.postgres.database import Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.residency import metrics
from services.dispatcher.residency.demand_store import NO_DEMAND, measure_demand
from services.dispatcher.residency.ensembles import find_steps
from services.dispatcher.residency.loads import Loaded, Loads
from services.dispatcher.residency.memory import Meter
from services.dispatcher.residency.observations import (
    Look,
    Usage,
    assume_memory,
    describe,
    differs,
    follow,
    is_coming,
    is_near,
    is_new,
    is_stuck,
    may_write_off,
    move,
    note_ended,
    size,
    write_off,
)
from services.dispatcher.residency.rule import Drain, Load, Phase, Plan, State, plan
from services.dispatcher.residency.store import Found, NotLeading, Residency, ResidencyStore
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.model_control import ModelControl, ModelState
from services.dispatcher.triton.model_control import State as Seen

MOVING_SECONDS = 0.25  # between looks while a model moves
WANTED_SECONDS = 0.5  # while one is wanted
QUIET_SECONDS = 2.0
PAUSE_FACTOR = 3  # times as long as a look took: it takes a quarter of a session's time at most
DRAIN_SECONDS = 30.0  # for jobs to end before their model is unloaded; Triton itself waits for those that still run
SAVE_SECONDS = 10.0  # between saves of what changes all the time
CLEAN_SECONDS = 60.0  # between removals of rows that nobody needs
MAX_MODELS = 1000  # of a repository

log = Log("residency")


class Limits(NamedTuple):
    """The settings: bytes for models, and seconds. `idle` of None: an idle model stays."""

    budget: int
    max_wait: float
    idle: float | None


class Planner:
    """What a new leader knows is in the rows and in Triton's index."""

    def __init__(
        self, database: Database, store: ResidencyStore, triton: TritonClient, meter: Meter, limits: Limits, holder: str
    ) -> None:
        """`holder` is this process in the lease of the role."""
        self._database = database
        self._store = store
        self._triton = triton
        self._control = ModelControl(triton)
        self._limits = limits
        self._holder = holder
        self._changed = asyncio.Event()
        self._loads = Loads(self._control, meter, self._changed)
        self._usage = Usage()
        self._rows: dict[str, Residency] = {}
        self._saved: dict[str, Residency] = {}
        self._ended: list[Loaded] = []
        self._undone: str | None = None  # the model whose load was perhaps saved, and not begun
        self._saved_at = self._cleaned_at = float("-inf")

    async def run(self) -> None:
        """Look and act until cancelled. A load that is under way then goes on in Triton."""
        clock, outage = asyncio.get_running_loop().time, Outage()
        try:
            while True:
                self._changed.clear()
                began, pause = clock(), WANTED_SECONDS
                with outage.tolerate("residency.not_planned", log, TritonUnavailable, NotLeading):
                    pause = max(await self.look(), PAUSE_FACTOR * (clock() - began))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
        finally:
            metrics.forget()
            await self._loads.stop()

    @property
    def is_quiet(self) -> bool:
        """Whether no call to load or unload a model is under way."""
        return self._loads.loading is None and not self._loads.unloading

    async def look(self) -> float:
        """Look at everything, decide, and act. Return for how many seconds to pause.

        Raises TritonUnavailable, Unavailable or NotLeading. Then nothing was begun.
        """
        self._ended += self._loads.take_ended()  # before the index is read, which may be older otherwise
        loading = self._loads.loading
        states = await self._control.read_states()
        patterns = await self._store.list_patterns()
        own = [name for name in sorted(states) if any(fnmatchcase(name, pattern) for pattern in patterns)][:MAX_MODELS]
        strangers = {name for name, seen in states.items() if seen.state is not Seen.ABSENT} - {*own}
        now, found = await self._store.list_models([*own, *strangers])
        demand = await measure_demand(self._database, self._store.server, own)
        self._take_over(found, states, strangers, now, loading)
        counts = await self._count_successes()
        jobs = {name: demand.get(name, NO_DEMAND) for name in self._rows}
        used = {name: (counts[name], each.waiting, each.running) for name, each in jobs.items()}
        self._usage.update(self._rows, now, used)
        looked = Look(now, found, demand, states)
        self._end_drains(looked)
        decided = plan(self._describe(looked, strangers))
        if any(is_coming(each, self._rows[each.row.name], now) for each in found):
            decided = decided._replace(actions=[each for each in decided.actions if isinstance(each, Load)])
        begun = self._decide(decided, now)
        await self._save(looked, begun)
        if begun is not None:
            self._begin_load(looked, begun)
        self._unload(looked)
        if any(row.phase in (Phase.LOADING, Phase.DRAINING) for row in self._rows.values()):
            return MOVING_SECONDS
        return WANTED_SECONDS if decided.places else QUIET_SECONDS

    def _take_over(
        self,
        found: Sequence[Found],
        states: Mapping[str, ModelState],
        strangers: set[str],
        now: float,
        loading: str | None,
    ) -> None:
        """Bring the rows up to date with Triton's index, and with the loads that have ended.

        `loading` is the model whose load was not over when the index was read.
        """
        self._rows = {each.row.name: self._rows.get(each.row.name, each.row) for each in found}
        self._saved = {each.row.name: self._saved.get(each.row.name, replace(each.row)) for each in found}
        ended = {loaded.name: loaded for loaded in self._ended}
        self._ended.clear()
        for each in found:
            row, seen = self._rows[each.row.name], states[each.row.name]
            before = replace(row)
            row.keep = each.row.keep and row.name not in strangers
            if row.name == self._undone and row.phase is Phase.LOADING and seen.state is Seen.ABSENT:
                move(row, Phase.ABSENT, now)
            if loaded := ended.get(row.name):
                note_ended(row, loaded, now, self._limits.budget)
                metrics.note_ended(loaded)
            follow(row, seen, now, is_own_load=row.name == loading, is_reload=each.reloads)
            if row.phase is Phase.ABSENT:
                self._loads.note_absent(row.name)
            size(row, each.declared, self._limits.budget)
            metrics.note_change(before, row, is_own=row.name in ended)
        self._undone = None

    async def _count_successes(self) -> Counter[str]:
        """Return how many requests of each model Triton has answered since its load."""
        counts = Counter[str]()
        with contextlib.suppress(TritonUnavailable):  # the next look notes it
            for (name, _), totals in (await self._triton.read_statistics()).items():
                counts[name] += totals.successes
        return counts

    def _describe(self, looked: Look, strangers: set[str]) -> State:
        """Return what the rule decides on. A model whose unload is stuck is absent, and what it holds is no room."""
        frozen, steps = strangers | self._find_needed(looked), looked.steps
        models, lost = [], 0
        for each in looked.found:
            name, row = each.row.name, self._rows[each.row.name]
            demand = looked.demand.get(name, NO_DEMAND)
            is_frozen = (
                name in frozen
                or self._triton.quarantine.holds(name)
                or self._loads.was_refused(name)
                or is_stuck(row, looked.now)
                or is_new(each, row, looked.now)
            )
            parts, seconds = find_steps([name], steps), self._loads.unload_seconds
            model = describe(each, row, demand, parts, seconds, is_frozen=is_frozen)
            lost += row.lost
            if name not in strangers and may_write_off(row, looked.states[name], demand, looked.now):
                model = model._replace(phase=Phase.ABSENT, is_frozen=False)
                lost += assume_memory(row, self._rows, self._limits.budget)
            models.append(model)
        return State(looked.now, max(self._limits.budget - lost, 0), self._limits.max_wait, self._limits.idle, models)

    def _find_needed(self, looked: Look) -> set[str]:
        """Return the models that ensembles in memory need."""
        loaded = [name for name, row in self._rows.items() if row.phase is not Phase.ABSENT]
        return find_steps(loaded, looked.steps)

    def _end_drains(self, looked: Look) -> None:
        """Keep models whose room nobody needs, that an ensemble needs, or that Triton does not unload.

        Those that it unloads already go.
        """
        needed = self._find_needed(looked)
        wanted = {
            each.row.name
            for each in looked.found
            if looked.demand.get(each.row.name, NO_DEMAND).waiting or not each.is_known or each.row.keep
        }
        for name, row in self._rows.items():
            is_loaded = looked.states[name].state is Seen.READY and name not in self._loads.unloading
            is_needless = row.for_model is not None and row.for_model not in wanted
            stays = is_needless or name in needed or self._loads.was_refused(name)
            if row.phase is Phase.DRAINING and is_loaded and stays:
                move(row, Phase.RESIDENT, looked.now)

    def _decide(self, decided: Plan, now: float) -> str | None:
        """Write the plan into the rows. Return the model to load."""
        begun = None
        for action in decided.actions:
            row = self._rows[action.name]
            match action:
                case Load():
                    if self._loads.loading is None:
                        if row.phase is Phase.DRAINING:
                            write_off(row, assume_memory(row, self._rows, self._limits.budget), now)
                            log.warning("model.unload_stuck", model=row.name, lost=row.lost)
                        move(row, Phase.LOADING, now)
                        begun = action.name
                case Drain():
                    move(row, Phase.DRAINING, now)
                    row.for_model = action.for_model
                    log.info("model.draining", model=row.name, for_model=row.for_model)
                case _:
                    assert_never(action)
        for name, row in self._rows.items():
            place = decided.places.get(name)
            row.place, row.why = (None, None) if place is None else (place.number, place.why)
            expected_at = None if place is None or place.expected_in is None else now + place.expected_in
            if not is_near(row.expected_at, expected_at):
                row.expected_at = expected_at
        return begun

    async def _save(self, looked: Look, begun: str | None) -> None:
        """Save what changed, and make sure that this process still leads. Raises Unavailable or NotLeading."""
        now = looked.now
        is_time = now - self._saved_at > SAVE_SECONDS
        changed = [row for name, row in self._rows.items() if differs(row, self._saved[name], in_detail=is_time)]
        try:
            await self._store.save(changed, self._holder)
            if now - self._cleaned_at > CLEAN_SECONDS:
                await self._store.remove_others([*self._rows], self._holder)
                self._cleaned_at = now
        except (Unavailable, NotLeading):
            self._rows, self._saved, self._undone = {}, {}, begun  # the rows say what was saved
            raise
        self._saved |= {row.name: replace(row) for row in changed}
        if is_time:
            self._saved_at = now

    def _begin_load(self, looked: Look, name: str) -> None:
        row = self._rows[name]
        waiting = looked.demand.get(name, NO_DEMAND).waiting
        why = "jobs" if waiting else "kept" if row.keep else "unknown"
        metrics.loads.labels(name, why).inc()
        log.info("model.loading", model=name, why=why)
        drains = any(each.phase is Phase.DRAINING for each in self._rows.values())  # then what grows is not the model
        self._loads.load(name, measure=row.memory is None and not drains)

    def _unload(self, looked: Look) -> None:
        """Unload the models that drain once no dispatcher starts or runs their jobs."""
        if self._loads.is_measuring:
            return
        needed = self._find_needed(looked)
        for each in looked.found:
            name, row = each.row.name, self._rows[each.row.name]
            if row.phase is not Phase.DRAINING or looked.states[name].state is not Seen.READY or name in needed:
                continue
            is_busy = each.serving or looked.demand.get(name, NO_DEMAND).running > 0
            if not is_busy or looked.now - row.changed_at > DRAIN_SECONDS:
                self._loads.unload(name)
