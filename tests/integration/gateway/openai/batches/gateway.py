"""What gateways do with batches that come as requests, on a database and a folder."""

import json
from collections.abc import AsyncIterator
from uuid import UUID

from common import ids
from common.job_states import Status
from common.jobs.end import end_jobs
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.tensors import Datatype, Signature
from services.dispatcher.maintenance.batches.batch_completer import BatchCompleter
from services.dispatcher.maintenance.batches.store import BatchStore as CompleterStore
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.auth.store import Key
from services.gateway.batches.announcer import JobAnnouncer
from services.gateway.files.presigned import PresignedUploads
from services.gateway.files.quota import Quota
from services.gateway.files.store import FileStore, NewUpload
from services.gateway.jobs.idempotency.keys import IdempotencyKeys
from services.gateway.jobs.idempotency.store import IdempotencyStore
from services.gateway.openai.batches.creation import Creator
from services.gateway.openai.batches.importer import LineImporter
from services.gateway.openai.batches.schemas import BatchRequest
from services.gateway.openai.batches.source import LineSource
from services.gateway.openai.batches.store import RequestStore
from services.gateway.openai.batches.view import view_batch
from services.gateway.openai.calls.submission import Submission
from tests.integration.jobs import TRACEPARENT, claim, new_end
from tests.integration.submitters import new_submitter
from tests.integration.world import World

CHAT = "/v1/chat/completions"
MODEL = ModelVersion(
    "talk",
    "1",
    False,
    0,
    1,
    [Signature("request", Datatype.BYTES, [1])],
    [Signature("text", Datatype.BYTES, [1])],
    {"charonia.openai": "messages"},
)


def line(number: int) -> bytes:
    """Return a line with this number as its name."""
    body = {"model": "talk", "messages": [{"role": "user", "content": f"text {number}"}]}
    return json.dumps({"custom_id": str(number), "method": "POST", "url": CHAT, "body": body}).encode() + b"\n"


def lines(count: int) -> bytes:
    return b"".join(line(number) for number in range(count))


class Gateway:
    """What a gateway does with batches."""

    def __init__(self, world: World, objects: ObjectStore, most: int = 10_000) -> None:
        self.world = world
        self.objects = objects
        database = world.database
        submitter = new_submitter(database, world.wake_ups, objects, most=most, max_inline=256 * 1024)
        self.store = RequestStore(database)
        self.files = FileStore(database, Quota(100, 10**9))
        keys = IdempotencyKeys(IdempotencyStore(database))
        source, uploads = LineSource(objects), PresignedUploads(self.files, objects, 10**9)
        self.creator = Creator(self.store, uploads, source, keys)
        submission = Submission(submitter, submitter.workers, submitter.workers)
        self.importer = LineImporter(
            self.store, source, submission, submitter, JobAnnouncer(world.wake_ups, world.database)
        )

    async def upload(self, content: bytes, tenant: UUID | None = None) -> UUID:
        owner = tenant or self.world.tenant
        upload = NewUpload(ids.new(), owner, "application/octet-stream", len(content), None, 60.0)

        async def read() -> AsyncIterator[bytes]:
            yield content

        await self.files.begin_upload(upload, 60.0)
        stored = await self.objects.put(file_key(owner, upload.id), read())
        assert await self.files.finish_upload(upload.id, stored.size, stored.sha256) is not None
        return upload.id

    async def create(
        self, content: bytes, tenant: UUID | None = None, window: str = "24h", metadata: dict[str, str] | None = None
    ) -> UUID:
        file = await self.upload(content, tenant)
        shown = ids.encode(ids.Kind.FILE, file)
        request = BatchRequest(input_file_id=shown, endpoint=CHAT, completion_window=window, metadata=metadata)
        caller = Key(ids.new(), tenant or self.world.tenant)
        batch, replayed = await self.creator.create(caller, request, None, TRACEPARENT)
        assert not replayed
        return batch

    async def import_all(self) -> None:
        while await self.importer.sweep():
            pass

    async def find(self, batch: UUID, tenant: UUID | None = None) -> tuple[str, int, int, int]:
        """Return the state of a batch, and its lines: all, completed and failed."""
        found = await self.store.find(batch, tenant or self.world.tenant)
        assert found is not None
        counts = await self.store.count_jobs([found.row])
        view = view_batch(found, counts.get(batch, {}))
        numbers = view.request_counts
        return view.status, numbers.total, numbers.completed, numbers.failed


async def list_names(database: Database, batch: UUID) -> list[str]:
    """Return the names of the lines that are jobs, in order. Fail if a line is a job twice."""
    query = "SELECT custom_id FROM batch_items i JOIN jobs j ON j.id = job_id WHERE i.batch_id = $1 ORDER BY index"
    found = await database.fetch(query, batch)
    (jobs,) = await database.fetch("SELECT count(*) AS count FROM jobs WHERE batch_id = $1", batch)
    assert jobs["count"] == len(found)
    return [record["custom_id"] for record in found]


def complete(world: World) -> BatchCompleter:
    return BatchCompleter(CompleterStore(world.database), world.wake_ups, world.changes, "", 1.0)


async def end_all(world: World, batch: UUID) -> None:
    for record in await world.database.fetch("SELECT id FROM live_jobs WHERE batch_id = $1", batch):
        await end_jobs(world.database, [new_end(await claim(world.database, record["id"]), Status.SUCCEEDED)])
