"""A gateway's submitter on a database, without a broker."""

from typing import Any, cast

from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.object_store.pauses import Pauses
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.runs.pipelines import Pipelines
from common.security.ssrf import AddressPolicy
from common.views.job import JobUrls
from services.gateway.http.limits.body_limits import BodyBudget, BodyDeadlines, BodyLease
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.idempotency.keys import IdempotencyKeys
from services.gateway.jobs.idempotency.store import IdempotencyStore
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.inputs.large_input_writer import LargeInputWriter
from services.gateway.jobs.inputs.locations import InputLocations
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.jobs.inputs.stored_limit import StoredLimit
from services.gateway.jobs.lookups import Lookups
from services.gateway.jobs.queue_limits.limits import QueueLimits
from services.gateway.jobs.queue_limits.store import QueueLimitStore
from services.gateway.jobs.reuse.sharing import Sharing
from services.gateway.jobs.runs.submit import RunSubmitter
from services.gateway.jobs.submit import Submitter
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.pipeline_store import PipelineReader
from services.gateway.models.store import ModelStore
from tests.support.carrier import GATEWAY_CARRIER


def new_body_lease() -> BodyLease:
    return BodyLease(BodyBudget(2**30), BodyDeadlines())


def new_submitter(
    database: Database,
    wake_ups: WakeUpPublisher,
    objects: ObjectStore = cast(Any, None),  # noqa: B008 -- only tests with large inputs need one
    *,
    most: int = 100,
    max_stored: int = 10_000_000,
    max_inline: int = 1024,
    pauses: Pauses | None = None,
) -> Submitter:
    """Return the submitter of a new gateway. At most `most` jobs of a tenant may wait."""
    queues = QueueLimits(QueueLimitStore(database), most, 100, 1_000_000)
    large = InputStore(database)
    locations = InputLocations(AllowedLocations(database, ""), Buckets(1.0))
    files = InputFiles(InputStore(database), objects, locations, 1024, AddressPolicy())
    catalogue = Catalogue(ModelStore(database))
    return Submitter(
        database,
        catalogue,
        wake_ups,
        AddressPolicy.parse((), allow_http=False),
        queues,
        IdempotencyKeys(IdempotencyStore(database)),
        Workers(),
        Lookups(files, PipelineReader(database)),
        LargeInputWriter(database, large, objects, StoredLimit(large, max_stored), max_inline, pauses),
        RunSubmitter(database, GATEWAY_CARRIER, Pipelines(), wake_ups),
        Sharing(database, catalogue, wake_ups, JobUrls()),
    )
