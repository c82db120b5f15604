"""Creates batches: reads a file once to find out what its lines are, and commits the batch. Its jobs come later."""

import re
from datetime import timedelta
from http import HTTPStatus
from uuid import UUID

import msgspec

from common import ids
from common.errors import StoreNotFound, StoreRangeInvalid
from common.fair_semaphore import FairSemaphore
from common.object_store.keys import file_key
from services.gateway.auth.store import Key
from services.gateway.batches.submit import StoredResponse
from services.gateway.files.presigned import PresignedUploads
from services.gateway.files.store import FileRow
from services.gateway.http.limits.body_limits import overloaded
from services.gateway.http.problems import FieldError, Problem, conflict, invalid
from services.gateway.http.validation.allowed_values import show
from services.gateway.http.validation.suggestions import list_names
from services.gateway.jobs.idempotency.keys import IdempotencyKeys, check_same_request, in_progress
from services.gateway.jobs.idempotency.store import KeyRecord, RequestKey
from services.gateway.openai.batches.endpoints import CALLS
from services.gateway.openai.batches.record import BatchRecord, write_record
from services.gateway.openai.batches.schemas import BatchRequest
from services.gateway.openai.batches.source import LineSource
from services.gateway.openai.batches.store import FileLost, KeyUsed, NewRequest, RequestStore
from services.gateway.openai.batches.survey import Found, survey
from services.gateway.openai.ids import Prefix, parse
from services.gateway.openai.problems import unsupported

WINDOW = re.compile("([1-9][0-9]{0,6})([smhd])")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LONGEST = 30 * 86_400  # seconds
SPARE_SECONDS = 3600.0  # for the lines that are left when the time is over, which get their errors then
MAX_UNREAD = 100  # batches of a tenant whose lines are not all jobs
SURVEYS = 4  # files that a gateway reads at a time; each takes 10 MB
SURVEYS_OF_TENANT = 20  # that wait or run
RETRY_SECONDS = 60
ANSWER = msgspec.json.encode(StoredResponse(0, 0, []))  # of the key; the batch is shown as it is then


class Creator:
    """Creates batches."""

    def __init__(self, store: RequestStore, files: PresignedUploads, source: LineSource, keys: IdempotencyKeys) -> None:
        self._store = store
        self._files = files
        self._source = source
        self._keys = keys
        self._surveys = FairSemaphore[UUID](SURVEYS, each=1, most_users=SURVEYS_OF_TENANT, refuse=overloaded)

    async def create(
        self, caller: Key, request: BatchRequest, key: RequestKey | None, traceparent: str
    ) -> tuple[UUID, bool]:
        """Commit a batch, and return its id, and whether it is that of an earlier request with this key.

        Raises Problem (400, 404, 409, 422, 429, 503), and Unavailable.
        """
        if key is not None and (first := await self._keys.find(caller.tenant_id, key.key)):
            return replay(first, key), True
        seconds = check_request(request)
        file = await self._find_file(caller.tenant_id, request.input_file_id)
        if await self._store.count_unread(caller.tenant_id) >= MAX_UNREAD:
            raise too_many()
        async with self._surveys.acquire(caller.tenant_id):
            found = await self._survey(file)
        record = make_record(request, caller, file, found)
        failed = bool(found.errors)
        batch = NewRequest(
            ids.new(), caller.tenant_id, found.lines, traceparent, write_record(record), file.id, failed, seconds
        )
        try:
            await self._store.add(batch, seconds + SPARE_SECONDS, key, ANSWER)
        except KeyUsed:
            raise in_progress() from None
        except FileLost:
            raise lost() from None
        return batch.id, False

    async def _find_file(self, tenant_id: UUID, shown: str) -> FileRow:
        """Return the input file. Raises Problem (409, 422)."""
        file_id = parse(Prefix.FILE, shown)
        try:
            file = None if file_id is None else await self._files.find(file_id, tenant_id)
        except Problem as problem:
            if problem.status is not HTTPStatus.NOT_FOUND:
                raise
            file = None
        if file is not None and file.job_id is None:
            return file
        if file is not None:
            text = "belongs to a job, and goes with it; upload its content with POST /openai/v1/files"
            raise invalid(FieldError("/input_file_id", text))
        text = f"is '{shown[:100]}', which is no file of yours; upload it with POST /openai/v1/files"
        raise invalid(FieldError("/input_file_id", text))

    async def _survey(self, file: FileRow) -> Found:
        try:
            return await survey(self._source, file_key(file.tenant_id, file.id), file.size)
        except (StoreNotFound, StoreRangeInvalid):
            raise lost() from None


def check_request(request: BatchRequest) -> int:
    """Return for how many seconds the lines may wait. Raises Problem (400, 422)."""
    if request.endpoint not in CALLS:
        text = f"is '{request.endpoint[:100]}'; expected one of {list_names(CALLS, '`')}"
        raise invalid(FieldError("/endpoint", text))
    if request.output_expires_after is not None:
        text = "outputs are read from the jobs, and kept as long as these; leave it out"
        raise unsupported(FieldError("/output_expires_after", text))
    return read_window(request.completion_window)


def read_window(text: str) -> int:
    """Return the seconds of a completion window. Raises Problem (422)."""
    found = WINDOW.fullmatch(text)
    if found is None:
        text = f"is {show(text)}; expected a number of s, m, h or d, such as 24h"
        raise invalid(FieldError("/completion_window", text))
    seconds = int(found[1]) * UNITS[found[2]]
    if seconds > LONGEST:
        most = timedelta(seconds=LONGEST).days
        raise invalid(FieldError("/completion_window", f"is longer than {most} days; send a shorter one"))
    return seconds


def make_record(request: BatchRequest, caller: Key, file: FileRow, found: Found) -> BatchRecord:
    return BatchRecord(
        endpoint=request.endpoint,
        completion_window=request.completion_window,
        metadata=request.metadata,
        models=caller.models,
        file_size=file.size,
        duplicates=found.duplicates,
        errors=found.errors,
    )


def replay(first: KeyRecord, key: RequestKey) -> UUID:
    """Return the batch of the first request. Raises Problem (422) if the key belongs to another request."""
    check_same_request(first, key.fingerprint, is_batch=True)
    return first.id


def lost() -> Problem:
    return conflict("the input file was deleted, or has expired, while the batch was created; upload it again")


def too_many() -> Problem:
    text = (
        f"you have {MAX_UNREAD} batches whose lines wait for room in the queue, and may have no more; try again later"
    )
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, "quota_exceeded", text, headers=headers)
