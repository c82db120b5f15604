"""Makes jobs of the lines of batches, page by page. One gateway does it for all: see services/gateway/app/elected.py.

Each page of lines is one transaction with the place in the file that it ends at. So a kill neither loses nor doubles a
line, and a second process that does the same work changes nothing.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec

from common import ids
from common.errors import StoreNotFound, StoreRangeInvalid, Unavailable
from common.job_states import Priority
from common.jobs.input_files import LargeInputsLost
from common.object_store.keys import file_key
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.gateway.auth.store import Key
from services.gateway.batches.announcer import JobAnnouncer
from services.gateway.batches.checks import Turns
from services.gateway.http.problems import Problem
from services.gateway.jobs.submit import Submitter
from services.gateway.openai.batches.checks import (
    CANCELED,
    EXPIRED,
    CheckedLine,
    LineChecker,
    explain,
    refuse_line,
)
from services.gateway.openai.batches.endpoints import CALLS
from services.gateway.openai.batches.record import BatchError, BatchRecord, read_record, write_record
from services.gateway.openai.batches.source import Line, LineSource
from services.gateway.openai.batches.store import RequestStore, Step, UnreadBatch
from services.gateway.openai.calls.submission import Submission

SHARE = 0.5  # of a queue that batches fill, so that other submits of the tenant find room
STEP_LINES = 500  # that become jobs in one transaction
GROUP_LINES = 50  # that are checked before their room is taken
SCAN = 1000  # batches that are considered
PAUSE_SECONDS = 1.0  # between two looks for work, or for room
FAILED_SECONDS = 5.0  # before a batch is tried again that met an outage, or a bug

log = Log("batch")


class LineImporter:
    """Imports the lines of all batches that are being read. Tenants take turns, and so do the batches of a tenant."""

    def __init__(
        self,
        store: RequestStore,
        source: LineSource,
        submission: Submission,
        submitter: Submitter,
        announcer: JobAnnouncer,
    ) -> None:
        self._store = store
        self._source = source
        self._submission = submission
        self._submitter = submitter
        self._announcer = announcer
        self._due: dict[UUID, float] = {}  # when a batch is looked at again

    async def run(self) -> None:
        """Import lines as long as there are any, and look for more at intervals, until cancelled."""
        outage = Outage()
        while True:
            progress = False
            with outage.tolerate("batch.database_unavailable", log):
                progress = await self.sweep()
            if not progress:
                await asyncio.sleep(PAUSE_SECONDS)

    async def sweep(self) -> bool:
        """Import a page of lines for each tenant. Return whether there were any."""
        found = await self._store.find_unread(SCAN)
        self._due = {batch: self._due.get(batch, 0.0) for _, batch in found}
        progress = False
        for batch in choose_turns(found, self._due, asyncio.get_running_loop().time()):
            progress |= await self._take_turn(batch)
        return progress

    async def _take_turn(self, batch_id: UUID) -> bool:
        """Import a page of a batch. Return whether that was possible; if not, the batch is left alone for a moment."""
        clock = asyncio.get_running_loop().time
        self._due[batch_id] = clock() + FAILED_SECONDS  # also if it meets a bug, which ends this sweep
        try:
            progress = await self._import_page(batch_id)
        except (Problem, Unavailable, LargeInputsLost) as error:
            log.warning("batch.import_paused", batch_id=ids.encode(ids.Kind.BATCH, batch_id), error=error)
            return False
        self._due[batch_id] = clock() + (0.0 if progress else PAUSE_SECONDS)
        return progress

    async def _import_page(self, batch_id: UUID) -> bool:
        batch = await self._store.read_unread(batch_id)
        if batch is None:
            return False
        record = read_record(batch.request)
        try:
            page = await self._source.read(file_key(batch.tenant_id, batch.input_file), record.file_size, batch.read_to)
        except (StoreNotFound, StoreRangeInvalid):
            return await self._save(batch, [], None, write_record(add_error(record, lost_file(batch))))
        lines = page.lines[:STEP_LINES]
        reason = CANCELED if batch.is_canceled else EXPIRED if batch.seconds_left <= 0 else None
        if reason is not None:
            checked = [refuse_line(batch.next_index + at, line, explain(reason)) for at, line in enumerate(lines)]
            request = write_record(msgspec.structs.replace(record, has_expired=True)) if reason == EXPIRED else None
        else:
            checked, request = await self._check(batch, record, lines), None
        if lines and not checked:
            return False
        end = page.end if len(checked) == len(page.lines) else checked[-1].end
        return await self._save(batch, checked, None if end >= record.file_size else end, request)

    async def _check(self, batch: UnreadBatch, record: BatchRecord, lines: Sequence[Line]) -> list[CheckedLine]:
        """Return lines as items, in order, as many as there is room for. Raises Unavailable."""
        call = CALLS.get(record.endpoint)
        if call is None:  # it is one of a later release, whose gateway will take over
            return []
        caller = Key(batch.id, batch.tenant_id, models=record.models)
        context = await self._submitter.make_context(caller, batch.traceparent)
        checker = LineChecker(
            self._submission, call, record, context._replace(priority=Priority.LOW), batch.seconds_left
        )
        turns, checked = Turns(), list[CheckedLine]()
        for start in range(0, len(lines), GROUP_LINES):
            group: list[CheckedLine] = []
            for line in lines[start : start + GROUP_LINES]:
                group.append(await checker.check(batch.id, batch.next_index + len(checked) + len(group), line))
                await turns.end()
            jobs = [(each.job.model, each.job.input_bytes) for each in group if each.job is not None]
            room = await self._submitter.limits.admit_first(batch.tenant_id, jobs, SHARE)
            checked += cut_group(group, room)
            if room < len(jobs):
                break
        return checked

    async def _save(
        self, batch: UnreadBatch, checked: Sequence[CheckedLine], end: int | None, request: bytes | None
    ) -> bool:
        """Commit lines as items, and announce their jobs. Return False if nothing was committed."""
        items, jobs = [each.item for each in checked], [each.job for each in checked if each.job is not None]
        async with self._submitter.large_inputs.written(jobs) as written:
            times = await self._store.advance(Step(batch.id, batch.read_to, end, items, written, request))
        if times is None:
            return False
        self._announcer.announce(jobs, times)
        log.info(
            "batch.lines_imported",
            batch_id=ids.encode(ids.Kind.BATCH, batch.id),
            tenant=ids.encode(ids.Kind.TENANT, batch.tenant_id),
            accepted=len(jobs),
            total=len(items),
        )
        return True


def choose_turns(found: Sequence[tuple[UUID, UUID]], due: dict[UUID, float], now: float) -> list[UUID]:
    """Return a batch of each tenant: the one that has waited longest, if any may have a turn now. Pure."""
    chosen: dict[UUID, UUID] = {}
    for tenant, batch in found:
        if due[batch] <= now and (tenant not in chosen or due[batch] < due[chosen[tenant]]):
            chosen[tenant] = batch
    return list(chosen.values())


def cut_group(group: Sequence[CheckedLine], room: int) -> list[CheckedLine]:
    """Return the lines before the first whose job finds no room. Pure."""
    for at, each in enumerate(group):
        if each.job is not None:
            if room == 0:
                return list(group[:at])
            room -= 1
    return list(group)


def lost_file(batch: UnreadBatch) -> BatchError:
    shown = ids.encode(ids.Kind.FILE, batch.input_file)
    text = f"{shown} was deleted, or has expired, after {batch.next_index} lines; the other lines never ran"
    return BatchError("file_not_found", text)


def add_error(record: BatchRecord, error: BatchError) -> BatchRecord:
    return msgspec.structs.replace(record, errors=[*record.errors, error])
