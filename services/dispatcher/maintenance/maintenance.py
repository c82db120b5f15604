"""The work that one process does for all dispatchers: the elected one."""

from functools import partial
from typing import NamedTuple

from common.object_store.store import ObjectStore
from common.postgres import database_metrics, standby_check
from common.postgres.database import Database
from common.postgres.leadership import PATIENCE_SECONDS, Answer, Leadership, LeaseStore, Loops
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.dispatcher.maintenance.batches.batch_completer import BatchCompleter
from services.dispatcher.maintenance.batches.store import BatchStore
from services.dispatcher.maintenance.files import expired_files, orphans
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.dispatcher.maintenance.history import history
from services.dispatcher.maintenance.history.store import HistoryStore
from services.dispatcher.maintenance.lapsed_leases import LapsedLeases, LeaseGrace
from services.dispatcher.maintenance.reconciler.reconciler import Reconciler
from services.dispatcher.maintenance.rescuer import Rescuer
from services.dispatcher.maintenance.retention import own_retention, retention
from services.dispatcher.maintenance.retention.store import RetentionStore
from services.dispatcher.maintenance.run_sweeper import RunSweeper
from services.dispatcher.maintenance.sweeper import Sweeper
from services.dispatcher.maintenance.usage import usage_counter
from services.dispatcher.results.result_recorder import ResultRecorder
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.sessions.lost_sessions import LostSessions
from services.dispatcher.sessions.session_lock import SessionLock
from services.dispatcher.sessions.store import SessionStore
from services.dispatcher.settings import MaintenanceSettings

ROLE = "maintenance"


class Parts(NamedTuple):
    """What a process gives to the work. Its own loops run the publisher's connection and the session lock."""

    database: Database
    objects: ObjectStore
    publisher: Publisher
    wake_ups: WakeUpPublisher
    changes: ChangePublisher
    recorder: ResultRecorder
    session_lock: SessionLock
    runs: RunProgress


class Maintenance:
    """A candidate. While it is the leader, it sweeps, reconciles, removes what is old, and counts."""

    def __init__(self, settings: MaintenanceSettings, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts
        self._grace = LeaseGrace(settings.lease, settings.sweep_interval)
        self._sessions = SessionStore(parts.database)
        self._lost = LostSessions(self._sessions, parts.session_lock, settings.sweep_interval)
        # A candidate asks often enough for its grace to go on, so that it may reclaim as soon as it leads.
        patience = min(PATIENCE_SECONDS, settings.lease / 4)
        store = LeaseStore(parts.database, ROLE)
        self._leadership = Leadership(
            store,
            self._begin,
            patience=patience,
            note_answer=self._note_answer,
            is_fit=lambda: parts.publisher.connection.is_up,  # due jobs start by wake-ups
        )

    async def run(self) -> None:
        """Do the work whenever no other process does, until cancelled."""
        await self._leadership.run()

    async def _note_answer(self, answer: Answer) -> None:
        """Remember that the database accepts writes. If the leader may be dead, look which sessions are free."""
        self._grace.note_write()
        if answer.is_late:
            await self._lost.find()

    def _begin(self) -> Loops:
        """Return the loops of a new leader. Only the grace and the lost sessions remember what was before."""
        settings, parts = self._settings, self._parts
        database, wake_ups, interval = parts.database, parts.wake_ups, settings.sweep_interval
        old_rows, files = RetentionStore(database), UnneededFileStore(database)
        lapsed = LapsedLeases(database, self._grace, settings.lease)
        rescuer = Rescuer(database, parts.recorder, lapsed, self._lost, self._sessions)
        sweeper = Sweeper(database, parts.recorder, wake_ups, self._grace, rescuer, interval)
        reconciler = Reconciler(database, parts.recorder, parts.publisher, wake_ups)
        completer = BatchCompleter(BatchStore(database), wake_ups, parts.changes, settings.public_url, interval)
        return {
            "sweeper": sweeper.run,
            "runs": RunSweeper(database, parts.runs, wake_ups, interval).run,
            "reconciler": reconciler.run,
            "history": partial(history.run, HistoryStore(database), settings.retention),
            "retention": partial(retention.run, old_rows, settings.retention, settings.audit_retention),
            "own retention": partial(own_retention.run, old_rows),
            "files": partial(expired_files.run, files, parts.objects),
            "orphans": partial(orphans.run, files, parts.objects),
            "usage": partial(usage_counter.run, database, by_tenant=settings.tenant_metrics),
            "batches": completer.run,
            "database metrics": partial(database_metrics.collect_metrics, database),
            "standby": partial(standby_check.check_standby, database),
        }
