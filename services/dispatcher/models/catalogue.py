"""Keeps the model catalogue current."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from common.errors import Unavailable
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.models.loads import Load
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.shared_loads import SharedLoads
from services.dispatcher.models.store import Limits, ModelStore
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.statistics import Model, RecentTimes
from services.dispatcher.triton.unloaded import WITHOUT_ERROR, Unloaded, explain_absent

PROBE_SECONDS = 0.3  # between refreshes while something is unavailable, and after a request to refresh
SAVE_SECONDS = 10.0  # a row that is not saved for three times as long counts as not ready

WHY_TWO_SLOTS = (
    "it has one instance and no batching, so Triton runs one job at a time. The second slot sends the next job ahead, "
    "so that Triton need not wait for it. For one job at a time set CHARONIA_SLOTS=1; for more at a time raise the "
    "count in instance_group, or enable batching"
)

Rows: TypeAlias = tuple[list[tuple[ModelVersion, bool]], Unloaded, Limits, dict[Model, Load], set[Model]]

log = Log("catalogue")


class Catalogue:
    """The models of this dispatcher's Triton."""

    def __init__(
        self,
        triton: TritonClient,
        store: ModelStore,
        loads: SharedLoads,
        on_new_model: Callable[[ServedModel], Awaitable[None]],
        *,
        interval: float,
        slots: int,
        grace: float,
        patterns: Sequence[str] = ("*",),
        loads_models: bool = False,
    ) -> None:
        """Times are in seconds. A version that no server has had for `grace` leaves the catalogue.

        `on_new_model` starts to consume a model's queues. `slots` of 0 means what Triton can use. Models that match no
        pattern are ignored. `loads_models`: the dispatchers load what jobs wait for, so an unloaded model is not away.
        """
        self.models: dict[str, ServedModel] = {}
        self.is_up = False
        self.refresh_requested = asyncio.Event()
        self._triton = triton
        self._store = store
        self._loads = loads
        self._on_new_model = on_new_model
        self._interval = interval
        self._slots = slots
        self._grace = grace
        self._patterns = patterns
        self._loads_models = loads_models
        self._triton_outage = Outage()
        self._database_outage = Outage()
        self._times = RecentTimes()
        self._saved_at = -SAVE_SECONDS
        self._saved: Rows = ([], {}, {}, {}, set())
        self._unloaded: Unloaded = {}
        self._strangers: set[str] = set()  # of the repository, which nobody had described

    async def check(self) -> bool:
        """Return whether Triton answers, for /readyz."""
        return self.is_up

    async def run(self) -> None:
        """Refresh at intervals and on request, until cancelled."""
        while True:
            self.refresh_requested.clear()
            steady = await self.refresh()
            try:
                async with asyncio.timeout(self._interval if steady else PROBE_SECONDS):
                    await self.refresh_requested.wait()
                await asyncio.sleep(PROBE_SECONDS)  # many requests share one refresh
            except TimeoutError:
                continue

    async def refresh(self) -> bool:
        """Read Triton's models and save them. Return whether everything is available.

        A model that was away becomes available when its load is saved. Otherwise its first result could not be reused.
        """
        was_up = self.is_up
        try:
            ready = await self._read_triton()
            self.is_up = True
            self._triton_outage.end()
        except TritonUnavailable as error:
            ready, self.is_up = set(), False
            if self._triton_outage.begin():
                log.warning("triton.unavailable", error=error)
        if self.is_up and not was_up:
            log.info("triton.available", models=len({name for name, _ in ready}))
        for model in self.models.values():
            model.update_ready({version for name, version in ready if name == model.name}, hold=True)
        try:
            if self.is_up:
                await self._adopt()
                await self._share_loads()
            await self._save()
        except Unavailable as error:
            if self._database_outage.begin():
                log.warning("catalogue.save_failed", error=error)
            return False
        finally:
            for model in self.models.values():
                model.resume()
        self._database_outage.end()
        all_available = all(
            model.available.is_set() or (self._loads_models and not model.ready) for model in self.models.values()
        )
        return self.is_up and all_available

    async def _read_triton(self) -> set[Model]:
        """Return the versions that can run now, after reading what is new of them. Raises TritonUnavailable."""
        ready = {model for model in await self._triton.list_ready() if self._matches(model[0])}
        await self._describe_new(ready)
        self._note_unloaded()
        loaded_again = await self._loads.read(self.models, ready)
        await self._describe_again(loaded_again)
        return ready

    async def _share_loads(self) -> None:
        """Give new loads the ids that all dispatchers of this Triton use. Raises Unavailable."""
        loaded_again = await self._loads.share(self.models)
        try:
            await self._describe_again(loaded_again)
        except TritonUnavailable:  # the next refresh notes it
            self._loads.forget(loaded_again)
        self._loads.publish(self.models)

    async def _describe_again(self, versions: Collection[Model]) -> None:
        """Start no job of versions that were loaded again, and describe them. Raises TritonUnavailable."""
        for name, _ in versions:
            self.models[name].hold()
            self.models[name].forget_description()
        await self._describe_new(versions)

    def _matches(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _note_unloaded(self) -> None:
        """Take over why models do not run, and log each new reason of a failed load."""
        found = {key: reason for key, reason in self._triton.unloaded.items() if self._matches(key[0])}
        if self._loads_models:
            found = explain_absent(found, self.models)
        for (name, version), reason in found.items():
            if reason not in (*WITHOUT_ERROR, self._unloaded.get((name, version))):
                log.warning("model.not_loaded", model=name, version=version, reason=reason)
        self._unloaded = found

    async def _describe_new(self, ready: Collection[Model]) -> None:
        """Describe each version that became ready, and start to consume for each new model."""
        for name, version in sorted(ready):
            known = self.models.get(name)
            if known is not None and known.is_current(version):
                continue
            described = await self._triton.describe(name, version)
            if described is None:
                continue
            if known is None:
                await self._add_model([described])
            else:
                known.add_version(described, self._slots)

    async def _add_model(self, versions: Sequence[ModelVersion]) -> ServedModel:
        """Add a new model, and start to consume its queues."""
        model = ServedModel(versions[0].name, self.refresh_requested)
        for version in versions:
            model.add_version(version, self._slots)
        self.models[model.name] = model
        if not self._slots and not model.runs_in_parallel:
            log.info("model.two_slots", model=model.name, reason=WHY_TWO_SLOTS)
        await self._on_new_model(model)
        return model

    async def _adopt(self) -> None:
        """Add models that Triton may load, as they were described before. Raises Unavailable.

        One that nobody has described stays unknown until it is loaded.
        """
        if not self._loads_models:
            return
        new = {name for name in self._triton.repository if self._matches(name)} - self.models.keys() - self._strangers
        if not new:
            return
        known = defaultdict(list)
        for version in await self._store.find_known(new):
            known[version.name].append(version)
        self._strangers |= new - known.keys()
        for versions in known.values():
            (await self._add_model(versions)).forget_description()

    def _list_loadable(self) -> set[Model]:
        """Return the known versions that Triton has loaded, or has in its repository while the model is not loaded."""
        found = set[Model]()
        for name, model in self.models.items() if self._loads_models else ():
            there = self._triton.repository.get(name)
            if there is not None:
                loadable = model.ready or there or model.versions.keys()
                found |= {(name, version) for version in model.versions if version in loadable}
        return found

    async def _save(self) -> None:
        rows = [
            (described, version in model.ready and not model.is_draining)
            for model in self.models.values()
            for version, described in model.versions.items()
        ]
        limits = {model.name: reason for model in self.models.values() if (reason := model.limited_by)}
        loads = {(model.name, version): load for model in self.models.values() for version, load in model.loads.items()}
        now = (rows, self._unloaded, limits, loads, loadable := self._list_loadable())
        fresh = time.monotonic() - self._saved_at <= min(SAVE_SECONDS, self._grace)
        if fresh and self._saved == now:
            return
        self._times.update(self._loads.totals)
        await self._store.save_models(rows, self._times.means, limits, loads, loadable)
        await self._store.save_unloaded(self._unloaded)
        if self.is_up:
            for name, version in await self._store.retire_models(self._grace):
                log.warning("model.retired", model=name, version=version)
        self._saved, self._saved_at = now, time.monotonic()
