"""All stores of the dispatcher on one database."""

from common.postgres.database import Database
from services.dispatcher.claims.store import LimitStore
from services.dispatcher.maintenance.batches.store import BatchStore
from services.dispatcher.maintenance.retention.store import RetentionStore
from services.dispatcher.models.load_store import LoadStore
from services.dispatcher.models.store import ModelStore
from services.dispatcher.results.store import ResultStore
from services.dispatcher.sessions.store import SessionStore


class Stores:
    def __init__(self, database: Database) -> None:
        self.batches = BatchStore(database)
        self.limits = LimitStore(database)
        self.loads = LoadStore(database, "triton:8001", "w")
        self.models = ModelStore(database, "w")
        self.results = ResultStore(database)
        self.retention = RetentionStore(database)
        self.sessions = SessionStore(database)
