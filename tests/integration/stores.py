"""All stores of the dispatcher on one database."""

from common.postgres.database import Database
from services.dispatcher.claims.store import ClaimStore
from services.dispatcher.maintenance.batch_store import BatchStore
from services.dispatcher.maintenance.reconciler_store import ReconcilerStore
from services.dispatcher.maintenance.retention_store import RetentionStore
from services.dispatcher.maintenance.sweeper_store import SweeperStore
from services.dispatcher.models.store import ModelStore
from services.dispatcher.results.store import ResultStore
from services.dispatcher.sessions.store import SessionStore


class Stores:
    def __init__(self, database: Database) -> None:
        self.batches = BatchStore(database)
        self.claims = ClaimStore(database)
        self.models = ModelStore(database, "w")
        self.results = ResultStore(database)
        self.reconciler = ReconcilerStore(database)
        self.retention = RetentionStore(database)
        self.sessions = SessionStore(database)
        self.sweeper = SweeperStore(database)
