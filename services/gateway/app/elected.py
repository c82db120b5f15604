"""The work that one gateway does for all: the elected one."""

from common.postgres.database import Database
from common.postgres.leadership import Leadership, LeaseStore, Loops
from services.gateway.app.composition import Services

ROLE = "batches"


def make_leadership(database: Database, services: Services) -> Leadership:
    """Return what runs the loops while this gateway is the elected one."""

    def begin() -> Loops:
        return {"cancel": services.batches.canceler.run, "lines": services.openai.batches.importer.run}

    return Leadership(LeaseStore(database, ROLE), begin)
