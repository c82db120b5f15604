"""Reloads models in quarantine: a dead process never comes back by itself."""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from common.telemetry.logs import Log
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable

LOAD_RETRY_SECONDS = 2.0
LOAD_TRIES = 10  # of a model that this process unloaded
RETRY_SECONDS = 60.0  # after a reload that Triton refused
AWAY_SECONDS = 1.0  # after one that it did not answer; the next one begins once it answers again

log = Log("reloader")


class Reloader:
    """Unloads and loads models, where Triton's model control allows it."""

    def __init__(
        self, triton: TritonClient, on_unload: Callable[[str], None] = lambda _: None, *, is_planned: bool = False
    ) -> None:
        """`on_unload` is called with each model that was unloaded.

        `is_planned`: a planner loads models that are absent, if they are wanted.
        """
        self._triton = triton
        self._is_planned = is_planned
        self._on_unload = on_unload
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, float | None] = {}

    @property
    def is_possible(self) -> bool:
        """Whether Triton answers now."""
        return self._triton.answers

    @property
    def running(self) -> set[str]:
        """The models whose reload is not over."""
        return {*self._tasks}

    def take_ended(self) -> dict[str, float | None]:
        """Return, once, the models whose reload is over, with the seconds until another try. None: it worked."""
        ended, self._ended = self._ended, {}
        return ended

    def start(self, models: Collection[str]) -> None:
        """Begin to reload models, without waiting for it."""
        for model in set(models) - self._tasks.keys():
            self._tasks[model] = asyncio.create_task(self._reload(model))
            self._tasks[model].add_done_callback(partial(self._forget, model))

    async def stop(self) -> set[str]:
        """End all reloads. Return the models that may be unloaded now."""
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return {model for model in tasks if model not in self._ended}

    def _forget(self, model: str, _task: asyncio.Task[None]) -> None:
        del self._tasks[model]

    async def _reload(self, model: str) -> None:
        """Give a model a new process, unless it has one since its stall. It may be unloaded already."""
        try:
            unloaded = await self._triton.is_loaded(model) and await self._triton.unload_stalled(model)
            if unloaded:
                log.info("model.unloaded", model=model)
                self._on_unload(model)
            elif self._is_planned or await self._triton.is_loaded(model):
                self._ended[model] = None
                return
        except TritonUnavailable as error:
            log.warning("model.reload_refused", model=model, error=error)
            self._ended[model] = find_pause(error)
            return
        pause = RETRY_SECONDS
        for _ in range(LOAD_TRIES):
            try:
                loaded = await self._triton.is_loaded(model)  # by a new server, after a try that failed
                if not loaded:
                    await self._triton.load(model)
            except TritonUnavailable as error:
                log.warning("model.load_failed", model=model, error=error)
                if self._is_planned:
                    self._ended[model] = None
                    return
                unloaded = False  # the next try may be the first load of a new server
                pause = find_pause(error)
                await asyncio.sleep(LOAD_RETRY_SECONDS)
            else:
                if not loaded:
                    log.info("model.reloaded" if unloaded else "model.loaded", model=model)
                self._ended[model] = None
                return
        self._ended[model] = pause


def find_pause(error: TritonUnavailable) -> float:
    """Return the seconds until another try makes sense."""
    return AWAY_SECONDS if error.away else RETRY_SECONDS
