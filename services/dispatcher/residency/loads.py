"""Loads and unloads models, one load at a time, and measures what a load takes."""

import asyncio
from typing import NamedTuple

from common.telemetry.logs import Log
from services.dispatcher.residency.memory import SETTLE_SECONDS, Meter
from services.dispatcher.triton.client import LOAD_SECONDS
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.model_control import ModelControl, clean_reason, lacks_memory

UNLOAD_RETRY_SECONDS = 60.0  # after an unload that Triton refused: the model serves meanwhile
LONGEST_UNLOAD = 30.0  # seconds; a longer one waited for an inference, or for Triton itself

log = Log("residency")


class Loaded(NamedTuple):
    """A load that ended. `error`: why it failed. `growth`: the bytes by which Triton grew, if that was measured.

    `is_outage`: Triton went away meanwhile, so the model is probably not the cause.
    """

    name: str
    seconds: float
    growth: int | None = None
    error: str | None = None
    lacked_memory: bool = False
    is_outage: bool = False


class Loads:
    """The calls to Triton that are under way. They end with `stop`; a load then goes on in Triton."""

    def __init__(self, control: ModelControl, meter: Meter, changed: asyncio.Event) -> None:
        """`changed` is set when a call ends."""
        self._control = control
        self._meter = meter
        self._changed = changed
        self._load: asyncio.Task[None] | None = None
        self._unloads: dict[str, asyncio.Task[None]] = {}
        self._unloads_began: dict[str, float] = {}
        self._retry_at: dict[str, float] = {}
        self._ended: list[Loaded] = []
        self._moved_at = float("-inf")  # when a load or an unload ended last; Triton's metrics are older for a while
        self.loading: str | None = None
        """The model whose load is not over."""
        self.is_measuring = False
        """Whether it is measured what that takes. Unload nothing meanwhile."""
        self.unload_seconds = 0.0
        """What an unload takes in Triton. Half the weight is on the last one. 0: unknown."""

    def take_ended(self) -> list[Loaded]:
        """Return, once, the loads that have ended."""
        ended, self._ended = self._ended, []
        return ended

    def load(self, model: str, *, measure: bool) -> None:
        """Begin to load a model. `measure`: the load is over once it is known by how much Triton grew."""
        assert self.loading is None, "one load at a time"
        self._retry_at.pop(model, None)  # Triton was started again since it refused
        self._unloads_began.pop(model, None)
        self.loading, self.is_measuring = model, measure and self._meter.is_on
        self._load = asyncio.create_task(self._run_load(model, self.is_measuring))

    def unload(self, model: str) -> None:
        """Begin to unload a model, unless that was refused just now."""
        if model not in self._unloads and not self.was_refused(model):
            self._unloads_began.setdefault(model, asyncio.get_running_loop().time())  # the index may be older
            self._unloads[model] = asyncio.create_task(self._run_unload(model))

    def note_absent(self, model: str) -> None:
        """Learn what an unload takes: Triton's index says that this one is over."""
        if (began := self._unloads_began.pop(model, None)) is None:
            return
        seconds = asyncio.get_running_loop().time() - began
        if seconds < LONGEST_UNLOAD:
            self.unload_seconds = (self.unload_seconds + seconds) / 2 if self.unload_seconds else seconds

    def was_refused(self, model: str) -> bool:
        """Return whether Triton has refused to unload a model just now, as it does in another mode than `explicit`."""
        return asyncio.get_running_loop().time() < self._retry_at.get(model, 0.0)

    @property
    def unloading(self) -> set[str]:
        return {*self._unloads}

    async def stop(self) -> None:
        tasks = [*self._unloads.values(), *([self._load] if self._load is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_load(self, model: str, measure: bool) -> None:
        clock = asyncio.get_running_loop().time
        try:
            if measure:
                await asyncio.sleep(max(0.0, self._moved_at + SETTLE_SECONDS - clock()))
            ended = await self._load_now(model, measure)
            self._ended.append(ended)
        finally:
            self._moved_at = clock()
            self.loading, self._load, self.is_measuring = None, None, False
            self._changed.set()

    async def _load_now(self, model: str, measure: bool) -> Loaded:
        clock = asyncio.get_running_loop().time
        before = await self._meter.read() if measure else None
        began = clock()
        try:
            await self._control.load(model)
            ended = Loaded(model, clock() - began)
            log.info("model.loaded", model=model, seconds=round(ended.seconds, 3))
            if before is not None and not await self._control.has_declared_memory(model):
                ended = ended._replace(growth=await self._measure(before))
        except TritonUnavailable as error:
            reason = clean_reason(str(error))
            log.warning("model.load_failed", model=model, error=reason)
            seconds = clock() - began
            is_outage = error.away and seconds < LOAD_SECONDS
            ended = Loaded(model, seconds, None, reason, lacks_memory(error), is_outage)
        return ended

    async def _measure(self, before: int) -> int | None:
        """Return by how many bytes Triton grew. None: it did not, or does not say."""
        await asyncio.sleep(SETTLE_SECONDS)
        after = await self._meter.read()
        return after - before if after is not None and after > before else None

    async def _run_unload(self, model: str) -> None:
        clock = asyncio.get_running_loop().time
        self._retry_at.pop(model, None)
        try:
            await self._control.unload(model)
            log.info("model.unloaded", model=model)
        except TritonUnavailable as error:
            log.warning("model.unload_failed", model=model, error=error)
            self._retry_at[model] = clock() + UNLOAD_RETRY_SECONDS
            self._unloads_began.pop(model, None)
        finally:
            self._moved_at = clock()
            del self._unloads[model]
            self._changed.set()
