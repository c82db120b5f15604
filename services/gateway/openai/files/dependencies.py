"""The services that the handlers of OpenAI's files receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from common.postgres.database import Database
from services.gateway.files.dependencies import FileServices
from services.gateway.http.worker_processes import Workers
from services.gateway.openai.batches.store import RequestStore
from services.gateway.openai.calls.outputs import OutputReader
from services.gateway.openai.files.listing import FileListing
from services.gateway.openai.files.store import NamedFileStore


@dataclass(frozen=True)
class OpenAIFileServices:
    files: FileServices
    batches: RequestStore
    listing: FileListing
    reader: OutputReader
    workers: Workers


Services = NamedDependency[SkipValidation[OpenAIFileServices]]


def compose_files(
    database: Database, files: FileServices, batches: RequestStore, workers: Workers
) -> OpenAIFileServices:
    """Create the services around those of files and batches."""
    return OpenAIFileServices(
        files=files,
        batches=batches,
        listing=FileListing(NamedFileStore(database), batches),
        reader=OutputReader(files.objects),
        workers=workers,
    )
