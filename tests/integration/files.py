"""Files in the database, without their content."""

from uuid import UUID

from common import ids, tensors
from common.jobs.new_job import JobFile, NewJob
from common.postgres.database import Database
from common.tensors import Datatype, FileContent, Tensor
from tests.integration.jobs import new_job

ADD_FILE = """
INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, expires_at)
VALUES ($1, $2, $3, 'image/png', 7, '', 60, now() + make_interval(secs => $4))
"""


async def add_file(database: Database, tenant: UUID, status: str = "ready", seconds: float = 60.0) -> UUID:
    """Add a file that expires after this time."""
    file = ids.new()
    await database.fetch(ADD_FILE, file, tenant, status, seconds)
    return file


async def expire_file(database: Database, file: UUID) -> None:
    await database.fetch("UPDATE files SET expires_at = now() WHERE id = $1", file)


async def find_status(database: Database, file: UUID) -> str | None:
    record = await database.fetch_one("SELECT status FROM files WHERE id = $1", file)
    return None if record is None else str(record["status"])


def job_with(tenant: UUID, *files: UUID, **changes: object) -> NewJob:
    """Return a job that reads these files."""
    inputs = [Tensor(f"x{number}", Datatype.BYTES, [1], FileContent(file, 0, 7)) for number, file in enumerate(files)]
    uses = [JobFile(file, f"/inputs/x{number}/file") for number, file in enumerate(files)]
    return new_job(tenant, tensors=tensors.pack(inputs), files=uses, file_bytes=7 * len(files), **changes)
