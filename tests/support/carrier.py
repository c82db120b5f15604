"""What carries runs on."""

from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.runs.progress import RunCarrier
from common.runs.tensor_files import TensorFiles
from common.settings import INLINE_SIZE
from common.views.job import JobUrls

NOWHERE = "s3://nowhere"
GATEWAY_CARRIER = RunCarrier(JobUrls(), files=None)


def make_carrier(database: Database, store_url: str = NOWHERE, inline: int = INLINE_SIZE) -> RunCarrier:
    """Return a carrier. By default nobody answers as its object store."""
    return RunCarrier(JobUrls(), TensorFiles(database, ObjectStore(store_url), inline))
