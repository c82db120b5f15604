"""Gives each load of a version in Triton an id, which all dispatchers of this Triton share."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from uuid import UUID, uuid4

from common.telemetry.logs import Log
from services.dispatcher.models.load_store import LoadStore, LoadToSave
from services.dispatcher.models.loads import Load, LoadTracker, SavedLoad, Verdict, name_load
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.statistics import Model, Totals

TRIES = 2  # of a save, if another dispatcher saves a load of the same version at the same time

log = Log("loads")


class SharedLoads:
    """Knows the loads of Triton's versions. `read` looks at Triton, and `share` at what other dispatchers saved."""

    def __init__(self, triton: TritonClient, store: LoadStore, make_id: Callable[[], UUID] = uuid4) -> None:
        self.totals: Mapping[Model, Totals] = {}
        """Triton's counters, as of the last reading."""
        self._triton = triton
        self._store = store
        self._make_id = make_id
        self._trackers: dict[Model, LoadTracker] = defaultdict(LoadTracker)
        self._declared: dict[Model, ModelVersion] = {}
        self._ready: set[Model] = set()
        self._read: set[Model] = set()  # those of them whose counters are known

    async def read(self, models: Mapping[str, ServedModel], ready: Collection[Model]) -> set[Model]:
        """Read Triton's counters. Return which versions were loaded again: read what they declare now.

        Without counters nothing is known of a load, so its jobs are not reused.
        """
        for key, tracker in self._trackers.items():
            if key not in ready or models[key[0]].versions[key[1]] != self._declared.get(key):
                tracker.end()
        self._ready = {
            (name, version) for name, version in ready if name in models and version in models[name].versions
        }
        self._read = set()
        marks = {name: model.mark_inferences() for name, model in models.items()}
        with contextlib.suppress(TritonUnavailable):  # the next refresh notes it
            self.totals = await self._triton.read_statistics()
            self._read = self._ready & self.totals.keys()
        for key in self._read:
            name, version = key
            self._trackers[key].look(models[name].inferences.read(version, self.totals[key], marks[name]))
        return {key for key in self._read if self._trackers[key].load is None and self._trackers[key].was_known}

    async def share(self, models: Mapping[str, ServedModel]) -> set[Model]:
        """Save new loads of the versions that were read. Raises Unavailable.

        Return which versions were loaded again as other dispatchers saw: read what they declare now. Until a load is
        saved, the model does not know it: other dispatchers might give it another id.
        """
        known = {key for key in self._read if self._trackers[key].load is not None}
        before = {key: self._trackers[key].load for key in known}
        for key in self._ready - known:
            self._publish(key, models[key[0]])
        for _ in range(TRIES if self._read else 0):
            saved = await self._store.list_all()
            rows = [row for key in sorted(self._read) if (row := self._compare(key, saved.get(key), models[key[0]]))]
            if not rows:
                break
            for key, load in (await self._store.save(rows)).items():
                if self._trackers[key].load is None:
                    self._begin(key, load, models[key[0]])
            if all(self._trackers[row.model].load is not None for row in rows):
                break
        return {key for key, load in before.items() if self._trackers[key].load != load}

    def publish(self, models: Mapping[str, ServedModel]) -> None:
        """Let the models know their loads."""
        for key in self._ready:
            self._publish(key, models[key[0]])

    def forget(self, versions: Collection[Model]) -> None:
        """Take the loads of these versions for over: what they declare could not be read."""
        for key in versions:
            self._trackers[key].end()

    def _compare(self, key: Model, saved: SavedLoad | None, model: ServedModel) -> LoadToSave | None:
        """Return what to save of a version: a new load, or how many requests it has had."""
        tracker = self._trackers[key]
        verdict = tracker.compare(saved)
        if saved is None or verdict is Verdict.SAVE:
            load_id = self._make_id() if tracker.load is None else tracker.load.id
            return LoadToSave(key, load_id, None if saved is None else saved.load.id, tracker.executions)
        if verdict is Verdict.TAKE:
            self._begin(key, saved.load, model)
        if saved.is_old or tracker.executions > saved.executions:
            return LoadToSave(key, saved.load.id, saved.load.id, max(saved.executions, tracker.executions))
        return None

    def _begin(self, key: Model, load: Load, model: ServedModel) -> None:
        """Follow another load of a version."""
        self._trackers[key].begin(load, model.inferences.forget_unsettled()[key[1]])
        log.info("model.load_seen", model=key[0], version=key[1], load=str(load.id))

    def _publish(self, key: Model, model: ServedModel) -> None:
        """Let a model know the load of a version, which its weights name or a dispatcher has saved."""
        _, version = key
        declared, load = model.versions[version], self._trackers[key].load
        self._declared[key] = declared
        named = name_load(declared)
        if named is not None:
            load = Load(named, None if load is None else load.at)
        if load is None:
            model.loads.pop(version, None)
        else:
            model.loads[version] = load
