"""What each service keeps in memory: idle, with a few jobs in flight, and with very many."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.driver import Driver
from benchmarks.resident import resident, watch
from benchmarks.speed import IN_FLIGHT, MARGIN, OWN, Figures, JobsLost, require_whole
from deploy.local.stack import Stack

BATCH = 1_000  # jobs of one call: what a call needs while it is read and written is not what jobs in flight need
CALLS = 4  # at a time
STRETCH = 6  # times the seconds of other parts: so long they run at most
SETTLE = 2.0  # seconds


@dataclass(frozen=True)
class Memory:
    """`leaders` are the processes that are measured, `jobs` the very many, `hook` is the receiver's URL."""

    stack: Stack
    load: Driver
    submissions: Driver
    receiver: Driver
    hook: str
    leaders: Mapping[str, int]
    seconds: float
    jobs: int
    titles: ClassVar[dict[str, str]] = {
        **{f"memory.idle.{name}": f"{name}, idle, MB" for name in OWN},
        **{f"memory.busy.{name}": f"{name}, {IN_FLIGHT} jobs in flight, at most, MB" for name in OWN},
        **{f"memory.full.{name}": f"{name}, all the jobs in flight, at most, MB" for name in OWN},
        **{f"memory.grown.{name}": f"{name}, the latter more than the former, MB" for name in OWN},
        "memory.submit": "seconds to submit them all, in batches",
        "memory.done": "of them done when the time was up, jobs",
    }
    groups: ClassVar[dict[str, str]] = {}
    heads: ClassVar[tuple[str, ...]] = tuple(f"memory.grown.{name}" for name in OWN)

    def warm_up(self) -> None:
        """Load the code."""
        self._keep_busy(1.0)

    def run(self) -> Figures:
        """Measure once; what is left of the jobs goes with the stack."""
        time.sleep(SETTLE)
        idle = {name: resident(leader) for name, leader in self.leaders.items()}
        with watch(self.leaders) as busy:
            self._keep_busy(self.seconds)
        begin = time.perf_counter()
        with watch(self.leaders) as full:
            for _ in range(0, self.jobs, CALLS * BATCH):
                self._submit()
            submitted = time.perf_counter()
            within = self.seconds * STRETCH
            found = self.receiver.ask(within + MARGIN, kind="arrived", count=self.jobs, within=within)
        if found["doubled"]:
            raise JobsLost(f"{found['doubled']} webhooks came twice")
        return {
            **{f"memory.idle.{name}": value for name, value in idle.items()},
            **{f"memory.busy.{name}": value for name, value in busy.items()},
            **{f"memory.full.{name}": value for name, value in full.items()},
            **{f"memory.grown.{name}": value - busy[name] for name, value in full.items()},
            "memory.submit": submitted - begin,
            "memory.done": len(found["arrived"]),
        }

    def _keep_busy(self, seconds: float) -> None:
        require_whole(self.load.ask(seconds + MARGIN, kind="closed", in_flight=IN_FLIGHT, seconds=seconds))

    def _submit(self) -> None:
        port, margin = self.stack.gateways[0].port, MARGIN * 3
        found = self.submissions.ask(margin, port=port, connections=CALLS, model="echo", hook=self.hook, batch=BATCH)
        if found["refused"]:
            raise JobsLost(f"{found['refused']} batches were refused")
