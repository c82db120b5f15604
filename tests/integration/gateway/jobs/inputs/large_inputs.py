"""A gateway, its store and its sweeper, for tests of large inputs."""

from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from tritonclient.grpc import service_pb2 as pb

from common import ids, tensors
from common.job_states import Status
from common.jobs.end import end_jobs
from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.security.signed_urls import UrlSigner
from services.dispatcher.inputs.bucket_reader import BucketReader
from services.dispatcher.inputs.input_reader import InputReader
from services.dispatcher.inputs.references import FileUrls
from services.dispatcher.maintenance.files import expired_files
from services.dispatcher.maintenance.files.store import UnneededFileStore
from services.gateway.auth.store import Key
from services.gateway.jobs.idempotency.keys import parse_request_key
from services.gateway.jobs.submit import SubmittedJob, Submitter
from tests.integration.common.object_store.streams import list_keys
from tests.integration.jobs import TRACEPARENT, claim, new_end
from tests.integration.submitters import new_body_lease

LARGE, SMALL = 1000, 100  # elements of FP32: 4,000 bytes do not stay in the row, 400 do
HOUR = 3600.0


class Killed(Exception):
    """Stands for SIGKILL: nothing runs after it."""


class World(NamedTuple):
    database: Database
    objects: ObjectStore
    tenant: UUID
    submitter: Submitter

    async def submit(self, count: int = LARGE, key: str | None = None, **changes: Any) -> SubmittedJob:
        body = write_body(count, **changes)
        caller = Key(ids.new(), self.tenant)
        context = await self.submitter.make_context(caller, TRACEPARENT, parse_request_key(key, body))
        return await self.submitter.submit(body, context, new_body_lease())

    async def list_rows(self) -> list[tuple[str, bool]]:
        """Return the status of each file, and whether it belongs to a job."""
        found = await self.database.fetch("SELECT status, job_id FROM files")
        return [(record["status"], record["job_id"] is not None) for record in found]

    async def count_jobs(self) -> int:
        return len(await self.database.fetch("SELECT FROM jobs"))

    async def expire(self) -> None:
        """Let the time of what is not a job's be over."""
        await self.database.fetch("UPDATE files SET expires_at = now() WHERE expires_at < 'infinity'")

    async def sweep(self) -> int:
        return await expired_files.sweep(UnneededFileStore(self.database), self.objects)

    async def is_empty(self) -> bool:
        return await self.list_rows() == [] and await list_keys(self.objects) == []

    async def read(self, job: UUID) -> list[bytes]:
        """Return the inputs as a dispatcher sends them to Triton. Ends the job."""
        claimed = await claim(self.database, job)
        inputs = tensors.unpack(claimed.tensors or b"")
        assert claimed.input_bytes >= 4 * LARGE
        urls = FileUrls(self.objects, UrlSigner(["k" * 32]), "")
        buckets = BucketReader(AllowedLocations(self.database, ""), Buckets(1.0))
        message = await InputReader(self.objects, urls, buckets).complete(b"", self.tenant, inputs, 10.0)
        await end_jobs(self.database, [new_end(claimed, Status.FAILED)])
        return [*pb.ModelInferRequest.FromString(message).raw_input_contents]


def write_body(count: int = LARGE, **changes: Any) -> bytes:
    return msgspec.json.encode({"model": "echo", "inputs": {"x": [[1.5] * count]}} | changes)


def content(count: int = LARGE) -> bytes:
    return b"\x00\x00\xc0\x3f" * count
