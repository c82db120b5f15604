"""A model that this dispatcher runs."""

import asyncio
import time
from collections import Counter

from common.job_states import Priority
from common.rabbitmq.wake_ups import MAX_JOBS_PER_MESSAGE
from common.telemetry.logs import Log
from services.dispatcher.models.backoff import Backoff
from services.dispatcher.models.breaker import Breaker
from services.dispatcher.models.concurrency import ConcurrencyLimit, count_slots
from services.dispatcher.models.loads import Load, OwnInferences
from services.dispatcher.models.tenant_load import TenantLoad
from services.dispatcher.triton.model_version import ModelVersion

QUICK_MODEL_FACTOR = 2  # times as many slots for a quick model; a job then waits for up to two more batches
DESCRIBE_SECONDS = 10.0  # a version that becomes ready again within this time is not described again

QUEUE_FULL = "Triton refuses more: its own queue of the model was full; see max_queue_size in the model's config.pbtxt"
BREAKER_OPEN = "the model crashed or did not answer, so one job at a time tests it"
NO_ROOM = "the inputs of running jobs leave no room in a dispatcher for the next one; see CHARONIA_MAX_INPUTS_BYTES"

log = Log("catalogue")


class ServedModel:
    """A model with its versions, its slots and its availability."""

    def __init__(self, name: str, refresh_requested: asyncio.Event) -> None:
        """Setting `refresh_requested` makes the catalogue refresh at once."""
        self.name = name
        self.refresh_requested = refresh_requested
        self.versions: dict[str, ModelVersion] = {}
        self.ready: set[str] = set()
        self.concurrency = ConcurrencyLimit(1)
        self.backoff = Backoff()
        self.turns = TenantLoad()
        self.breaker = Breaker(name)
        self.available = asyncio.Event()
        self.inferences = OwnInferences()
        self.loads: dict[str, Load] = {}  # by version, as far as they are known; of one that is not ready, the last one
        self.lacks_room = False  # for the inputs of the next job, as of the last claim
        self.available_at = float("-inf")  # when it last became available, by the monotonic clock
        self._held = False  # it is ready, and waits for `resume`
        self._draining = False  # it is about to be unloaded
        self._was_ready = False
        self._described_at: dict[str, float] = {}

    def count_free(self) -> int:
        """Return how many jobs may start at once."""
        return self.concurrency.count_free() if self.available.is_set() and self.breaker.may_start else 0

    async def acquire(self, priority: Priority) -> bool:
        """Return with a slot held while the model is available. Return whether the job is a probe of its breaker."""
        while True:
            await self.available.wait()
            await self.breaker.wait()
            await self.concurrency.acquire(priority)
            try:
                await self.backoff.wait()
            except asyncio.CancelledError:
                self.concurrency.release()
                raise
            if self.available.is_set() and self.breaker.may_start:
                return self.breaker.start()
            self.concurrency.release()

    def release(self, *, probe: bool) -> None:
        """Give back what `acquire` returned with, before an inference began."""
        self.concurrency.release()
        if probe:
            self.breaker.cancel_probe()

    def note_queue_full(self) -> None:
        """Run fewer inferences at once. If even one is too many, another client fills the queue: try less often."""
        if self.concurrency.limit <= 1.0:
            self.backoff.note_refusal()
        self.concurrency.shrink()

    def note_success(self, seconds: float) -> None:
        """Adapt to an inference that succeeded. `seconds` includes the wait at the server."""
        self.backoff.note_success()
        self.breaker.note_answer()
        self.concurrency.note_success(seconds)

    def mark_unavailable(self) -> None:
        """Start no inference until the next refresh, which comes at once."""
        self._held = self._was_ready = False
        self.available.clear()
        self.refresh_requested.set()

    def update_ready(self, ready: set[str], *, hold: bool = False) -> None:
        """Set which versions Triton can run now. `hold`: if none could before, start no inference until `resume`."""
        self.ready = ready & self.versions.keys()
        if not self.ready:
            if self._was_ready:
                log.warning("model.unavailable", model=self.name)
            self._held = self._was_ready = False
            self.available.clear()
        elif not self.available.is_set():
            self._held = True
            if not hold:
                self.resume()

    def hold(self) -> None:
        """Start no inference until `resume`."""
        if self.available.is_set():
            self._held = True
            self.available.clear()

    def resume(self) -> None:
        """Start inferences again, unless the model became unavailable since, or drains."""
        if self._held and not self._draining:
            if not self._was_ready:
                log.info("model.ready", model=self.name, slots=self.concurrency.size)
            self._held, self._was_ready = False, True
            self.available_at = time.monotonic()
            self.available.set()

    @property
    def is_draining(self) -> bool:
        """Whether it starts no inference because it is about to be unloaded."""
        return self._draining

    def drain(self) -> None:
        """Start no inference until `end_drain`: the model is about to be unloaded."""
        self.hold()
        self._draining, self._was_ready = True, False

    def end_drain(self) -> None:
        """Start inferences once the model is ready, or at once if it still is."""
        self._draining = False
        self.resume()

    def add_version(self, version: ModelVersion, slots: int) -> None:
        """Store what a version declares. `slots` of 0 sizes the limit by what Triton can use."""
        self.versions[version.version] = version
        self._described_at[version.version] = time.monotonic()
        size = slots or self.count_slots()
        self.concurrency.resize(size, 0 if slots else size * QUICK_MODEL_FACTOR)

    def is_current(self, version: str) -> bool:
        """Return whether a ready version was described recently. A reload need not show as an outage."""
        return version in self.ready and time.monotonic() - self._described_at[version] < DESCRIBE_SECONDS

    def describe_again(self) -> None:
        """Read what the model declares again, at once, because it may have been reloaded."""
        self.forget_description()
        self.refresh_requested.set()

    def forget_description(self) -> None:
        """Let the next refresh read what the model declares."""
        self._described_at = dict.fromkeys(self._described_at, float("-inf"))

    def mark_inferences(self) -> Counter[str]:
        """Return how many inferences Triton's counters have from now on: see OwnInferences.mark."""
        return self.inferences.mark(decoupled=any(version.decoupled for version in self.versions.values()))

    def describe(self, version: str | None) -> ModelVersion | None:
        """Return what a version declares. None means the newest ready version, or else the newest known one."""
        if version is not None:
            return self.versions.get(version)
        newest = max(self.ready or self.versions, key=version_order, default=None)
        return None if newest is None else self.versions[newest]

    def count_slots(self) -> int:
        """Return the slots of the version that needs most."""
        return max(count_slots(model.instances, model.max_batch_size) for model in self.versions.values())

    @property
    def limited_by(self) -> str | None:
        """Why fewer jobs run at a time now than there are slots; None: no more than the slots limits them."""
        if self.breaker.is_open:
            return BREAKER_OPEN
        if self.concurrency.is_refused:
            return QUEUE_FULL
        return NO_ROOM if self.lacks_room else None

    @property
    def runs_in_parallel(self) -> bool:
        """Whether Triton runs several jobs of the model at once."""
        return any(model.instances * max(1, model.max_batch_size) > 1 for model in self.versions.values())

    def count_prefetch(self) -> int:
        """Return how many unacknowledged messages to hold per queue: half the slots, for at most as many jobs as slots.

        No other dispatcher can run the jobs of these messages.
        """
        batch = max(model.max_batch_size for model in self.versions.values())
        size = self.concurrency.size
        return max(1, min(size // 2, size // max(1, min(batch, MAX_JOBS_PER_MESSAGE))))


def version_order(version: str) -> tuple[int, str]:
    return (int(version), "") if version.isdecimal() else (-1, version)
