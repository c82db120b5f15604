"""A Triton in virtual time: loads take time, jobs arrive and run, and a planner decides what is loaded."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import exp, inf
from typing import NamedTuple

from common.job_states import Priority
from services.dispatcher.residency.rule import Action, Drain, Load, Model, Phase, State

SMOOTHED_SECONDS = 600.0
PLAN_SECONDS = 0.5


class Job(NamedTuple):
    model: str
    arrives: float


class Program(NamedTuple):
    """A model. `measured` is the memory that it takes, and `declared` what is known of it before its first load."""

    name: str
    measured: int = 100
    declared: int | None = None
    load_seconds: float = 1.0
    compute_seconds: float = 0.05
    slots: int = 1
    keep: bool = False
    is_known: bool = True
    unload_seconds: float = 0.0


class Started(NamedTuple):
    job: Job
    at: float


class Loaded(NamedTuple):
    name: str
    begins: float
    state: State


class Drained(NamedTuple):
    action: Drain
    at: float
    state: State


@dataclass
class Seat:
    """A model and what it does now."""

    program: Program
    model: Model
    queue: list[Job] = field(default_factory=list)
    is_leaving: bool = False
    counted_at: float = 0.0
    counted: float = 0.0

    def count_arrival(self, now: float) -> None:
        self.counted = self.counted * exp((self.counted_at - now) / SMOOTHED_SECONDS) + 1
        self.counted_at = now

    def arrivals(self, now: float) -> float:
        return self.counted * exp((self.counted_at - now) / SMOOTHED_SECONDS) / SMOOTHED_SECONDS


class SimulatedTriton:
    """Runs `choose` each half second, and after each load and unload, until all jobs are done or `until` is reached."""

    def __init__(
        self,
        programs: Iterable[Program],
        budget: int,
        max_wait: float,
        choose: Callable[[State], Sequence[Action]],
        idle: float | None = None,
        in_flight: int | None = None,
    ) -> None:
        """`in_flight`: only so many jobs are asked for at once, in the order of their arrival. None: all."""
        self.now = 0.0
        self.budget = budget
        self.started: list[Started] = []
        self.loaded: list[Loaded] = []
        self.drained: list[Drained] = []
        self.most_held = 0
        self._max_wait, self._idle, self._choose = max_wait, idle, choose
        self._seats = {
            program.name: Seat(
                program,
                Model(
                    program.name,
                    Phase.ABSENT,
                    memory=program.declared,
                    keep=program.keep,
                    is_known=program.is_known,
                    slots=program.slots,
                    since=None if program.is_known else 0.0,
                ),
            )
            for program in programs
        }
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._left = 0
        self._in_flight, self._asked = in_flight, 0
        self._backlog = deque[Job]()

    @property
    def swaps(self) -> int:
        return sum(drained.action.for_model is not None for drained in self.drained)

    @property
    def waits(self) -> list[float]:
        return [started.at - started.job.arrives for started in self.started]

    @property
    def held(self) -> int:
        return sum(seat.program.measured for seat in self._seats.values() if seat.model.phase is not Phase.ABSENT)

    def run(self, jobs: Iterable[Job], until: float = inf) -> None:
        for job in jobs:
            self._left += 1
            self._at(job.arrives, lambda job=job: self._arrive(job))  # type: ignore[misc]
        self._at(0.0, self._tick)
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heappop(self._events)
            event()

    def state(self) -> State:
        return State(
            self.now, self.budget, self._max_wait, self._idle, [self._describe(seat) for seat in self._seats.values()]
        )

    def _describe(self, seat: Seat) -> Model:
        if not seat.queue:
            return seat.model._replace(arrivals=seat.arrivals(self.now))
        return seat.model._replace(
            waiting=len(seat.queue),
            since=seat.queue[0].arrives,
            priority=Priority.NORMAL,
            arrivals=seat.arrivals(self.now),
        )

    def _at(self, when: float, event: Callable[[], None]) -> None:
        heappush(self._events, (when, next(self._numbers), event))

    def _tick(self) -> None:
        self._plan()
        if self._left:
            self._at(self.now + PLAN_SECONDS, self._tick)

    def _plan(self) -> None:
        state = self.state()
        for action in self._choose(state):
            seat = self._seats[action.name]
            match action:
                case Load():
                    assert seat.model.phase is Phase.ABSENT
                    self.loaded.append(Loaded(action.name, self.now, state))
                    seat.model = seat.model._replace(phase=Phase.LOADING)
                    self._at(self.now + seat.program.load_seconds, lambda seat=seat: self._end_load(seat))  # type: ignore[misc]
                    self._measure()
                case Drain():
                    assert seat.model.phase is Phase.RESIDENT
                    self.drained.append(Drained(action, self.now, state))
                    seat.model = seat.model._replace(phase=Phase.DRAINING)
        for seat in self._seats.values():
            self._unload_if_drained(seat)

    def _measure(self) -> None:
        self.most_held = max(self.most_held, self.held)

    def _end_load(self, seat: Seat) -> None:
        seat.model = seat.model._replace(
            phase=Phase.RESIDENT,
            loaded_at=self.now,
            last_used=self.now,
            memory=seat.program.measured,
            load_seconds=seat.program.load_seconds + seat.program.unload_seconds,
            is_known=True,
            since=None,
        )
        self._start_jobs(seat)
        self._plan()

    def _unload_if_drained(self, seat: Seat) -> None:
        if seat.model.phase is Phase.DRAINING and not seat.model.running and not seat.is_leaving:
            seat.is_leaving = True
            self._at(self.now + seat.program.unload_seconds, lambda: self._end_unload(seat))

    def _end_unload(self, seat: Seat) -> None:
        seat.model, seat.is_leaving = seat.model._replace(phase=Phase.ABSENT, left_at=self.now), False
        self._plan()

    def _arrive(self, job: Job) -> None:
        self._backlog.append(job)
        self._ask()

    def _ask(self) -> None:
        while self._backlog and (self._in_flight is None or self._asked < self._in_flight):
            job = self._backlog.popleft()
            self._asked += 1
            seat = self._seats[job.model]
            seat.count_arrival(self.now)
            seat.queue.append(job)
            self._start_jobs(seat)

    def _start_jobs(self, seat: Seat) -> None:
        while seat.model.phase is Phase.RESIDENT and seat.queue and seat.model.running < seat.program.slots:
            self.started.append(Started(seat.queue.pop(0), self.now))
            seat.model = seat.model._replace(running=seat.model.running + 1, last_used=self.now)
            self._at(self.now + seat.program.compute_seconds, lambda: self._end_job(seat))

    def _end_job(self, seat: Seat) -> None:
        self._left -= 1
        self._asked -= 1
        seat.model = seat.model._replace(
            running=seat.model.running - 1, last_used=self.now, compute_seconds=seat.program.compute_seconds
        )
        self._start_jobs(seat)
        self._unload_if_drained(seat)
        self._ask()
