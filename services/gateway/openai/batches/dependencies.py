"""The services that the handlers of OpenAI's batches receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.gateway.batches.announcer import JobAnnouncer
from services.gateway.batches.store import BatchStore
from services.gateway.files.presigned import PresignedUploads
from services.gateway.jobs.submit import Submitter
from services.gateway.openai.batches.creation import Creator
from services.gateway.openai.batches.importer import LineImporter
from services.gateway.openai.batches.source import LineSource
from services.gateway.openai.batches.store import RequestStore
from services.gateway.openai.calls.submission import Submission


@dataclass(frozen=True)
class OpenAIBatchServices:
    store: RequestStore
    batches: BatchStore
    creator: Creator
    importer: LineImporter


Services = NamedDependency[SkipValidation[OpenAIBatchServices]]


def compose_batches(
    database: Database,
    objects: ObjectStore,
    wake_ups: WakeUpPublisher,
    submission: Submission,
    submitter: Submitter,
    files: PresignedUploads,
) -> OpenAIBatchServices:
    """Create the services around those of jobs and files."""
    store, source = RequestStore(database), LineSource(objects)
    return OpenAIBatchServices(
        store=store,
        batches=BatchStore(database),
        creator=Creator(store, files, source, submitter.idempotency_keys),
        importer=LineImporter(store, source, submission, submitter, JobAnnouncer(wake_ups, database)),
    )
