"""All of OpenAI's API: its services around those of jobs and files, and its routes."""

from dataclasses import dataclass

from litestar import Router

from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from services.gateway.files.dependencies import FileServices
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.dependencies import JobServices
from services.gateway.models.catalogue import Catalogue
from services.gateway.open_inference.inference import Inference
from services.gateway.openai import router
from services.gateway.openai.batches import routes as batch_routes
from services.gateway.openai.batches.dependencies import OpenAIBatchServices, compose_batches
from services.gateway.openai.dependencies import OpenAIServices, compose_openai
from services.gateway.openai.files import routes as file_routes
from services.gateway.openai.files.dependencies import OpenAIFileServices, compose_files


@dataclass(frozen=True)
class OpenAIApi:
    """The services of calls that are one job each, of batches and of files."""

    calls: OpenAIServices
    batches: OpenAIBatchServices
    files: OpenAIFileServices


def compose_api(
    database: Database,
    objects: ObjectStore,
    wake_ups: WakeUpPublisher,
    template_workers: Workers,
    jobs: JobServices,
    files: FileServices,
    inference: Inference,
    catalogue: Catalogue,
) -> OpenAIApi:
    """Create the services. `template_workers` render templates that operators wrote."""
    calls = compose_openai(jobs, inference, catalogue, objects, template_workers)
    batches = compose_batches(database, objects, wake_ups, calls.submission, jobs.submitter, files.presigned)
    return OpenAIApi(calls, batches, compose_files(database, files, batches.store, jobs.submitter.workers))


def make_routers(api: OpenAIApi, max_body: int) -> list[Router]:
    """`max_body` limits the body of a call that is one job, in bytes."""
    return [
        router.make_router(api.calls, max_body),
        batch_routes.make_router(api.batches),
        file_routes.make_router(api.files),
    ]
