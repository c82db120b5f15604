"""Checks the items of a batch as they arrive: each becomes a job or an error."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.jobs.new_job import NewJob
from common.locations.location import Location
from common.telemetry import tracing
from services.gateway.auth.store import Key
from services.gateway.batches.items import MAX_ITEMS, Items
from services.gateway.batches.parse import ParsedItem, parse_defaults, parse_item, read_custom_id
from services.gateway.batches.schemas import ItemError, ItemProblem
from services.gateway.batches.store import NewItem
from services.gateway.http.problems import MAX_ERRORS, FieldError, Problem, invalid, name_type, shorten
from services.gateway.jobs.parse import NeedsFiles, SubmitContext
from services.gateway.jobs.runs.parse import NeedsPipeline
from services.gateway.jobs.submit import Submitter
from services.gateway.models.pipeline_store import PipelineKey

MAX_ITEM_ERRORS = 3  # reported for one item
YIELD_SECONDS = 0.005  # of work before other requests run


class CheckedItems(NamedTuple):
    """All items in order, the valid jobs, the errors of the other items, and the digest of the whole body."""

    items: list[NewItem]
    jobs: list[NewJob]
    errors: list[ItemError]
    fingerprint: bytes


class CheckedItem(NamedTuple):
    """An item with its job, or with its error."""

    item: NewItem
    job: NewJob | None
    error: ItemError | None


class ItemChecker:
    """Checks the items of one batch."""

    def __init__(self, submitter: Submitter, context: SubmitContext, batch_id: UUID) -> None:
        self._workers = submitter.workers
        self._lookups = submitter.lookups
        self._context = context
        self._batch_id = batch_id
        self._defaults: bytes | None = None
        self._names: dict[str, int] = {}  # of the items so far, with their indexes
        self._turns = Turns()

    async def check(self, items: Items) -> CheckedItems:
        """Check all items: last those that refer to pipelines or files, which are looked up together.

        Raises Problem: 422 for too many items, or for invalid defaults, 503 if runs are not taken now.
        """
        checked: dict[int, CheckedItem] = {}
        needs = Needs()
        async for index, text in self._enumerate(items):
            await self._check_into(checked, needs, index, text, items)
        while needs.items:
            self._context = await self._lookups.add_to(self._context, needs.pipelines, needs.files)
            found_out, needs = needs, Needs()
            for index, text in found_out.items.items():
                await self._check_into(checked, needs, index, text, items)
                await self._turns.end()
        found = [each for _, each in sorted(checked.items())]
        return CheckedItems(
            [each.item for each in found],
            [each.job for each in found if each.job is not None],
            [each.error for each in found if each.error is not None],
            items.digest.digest(),
        )

    async def _check_into(
        self, checked: dict[int, CheckedItem], needs: "Needs", index: int, text: bytes | str, items: Items
    ) -> None:
        """Check an item, or note what must be looked up before."""
        try:
            checked[index] = await self._check_one(index, text, items)
        except NeedsPipeline as error:
            needs.pipelines.add(error.key)
        except NeedsFiles as error:
            for each, may_be_npy in error.files.items():
                needs.files[each] = may_be_npy or needs.files.get(each, False)
        if index not in checked:
            needs.items[index] = text
            self._note_name(index, await self._workers.work(len(text), read_custom_id, text))

    async def _check_one(self, index: int, text: bytes | str, items: Items) -> CheckedItem:
        """Return an item with its job or its error. Raises NeedsPipeline and NeedsFiles before these are known."""
        try:
            job, custom_id = await self._parse(index, text)
        except Problem as problem:
            error = describe(problem, index, await self._workers.work(len(text), read_custom_id, text))
            self._note_name(index, error.custom_id)
            return CheckedItem(NewItem(index, None, error.custom_id, to_problem(error)), None, error)
        held = job.held_bytes + len(job.callback_url or "")
        items.hold(max(0, held - len(text)))  # packed, `[1,1]` is 16 bytes of FP64; defaults are in each job
        return CheckedItem(NewItem(index, job.id, custom_id), add_to_batch(job, self._batch_id), None)

    def _note_name(self, index: int, name: str | None) -> int:
        """Return the first item with this name."""
        return index if name is None else self._names.setdefault(name, index)

    async def _parse(self, index: int, text: bytes | str) -> ParsedItem:
        """Return the job of an item. Raises Problem as that of a single job, and 422 for a name that is used."""
        size = len(text) + len(self._defaults or b"")
        parsed = await self._workers.work(size, parse_item, text, self._defaults, self._context)
        if (first := self._note_name(index, parsed.custom_id)) != index:
            raise invalid(FieldError("/custom_id", f"is that of item {first}, too; each item needs its own"))
        return parsed

    async def _enumerate(self, items: Items) -> AsyncIterator[tuple[int, bytes | str]]:
        """Yield the items with their numbers, without the defaults."""
        index, is_first = 0, True
        async for text in items:
            if is_first:
                is_first = False
                self._defaults = await self._workers.work(len(text), parse_defaults, text)
                if self._defaults is not None:
                    continue
            if index == MAX_ITEMS:
                raise invalid(FieldError("", f"the body has more than {MAX_ITEMS} jobs; split it into several batches"))
            yield index, text
            index += 1
            await self._turns.end()


class Needs:
    """Items that need something which must be looked up, and what that is."""

    def __init__(self) -> None:
        self.items: dict[int, bytes | str] = {}
        self.pipelines: set[PipelineKey] = set()
        self.files: dict[UUID | Location, bool] = {}


class Turns:
    """Lets other requests run in between."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def end(self) -> None:
        """Let others run if this one has worked for long enough."""
        if time.perf_counter() - self._began > YIELD_SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


def describe(problem: Problem, index: int, custom_id: str | None) -> ItemError:
    """Return a problem as the error of an item."""
    fields = [shorten(error) for error in problem.errors[:MAX_ITEM_ERRORS]]
    return ItemError(index, custom_id, name_type(problem), problem.detail[:500], fields)


def to_problem(error: ItemError) -> ItemProblem:
    return ItemProblem(error.type, error.detail, error.errors)


def add_to_batch(job: NewJob, batch_id: UUID) -> NewJob:
    """Return the job as a part of the batch, with its own trace: one trace of 10,000 jobs would be unreadable."""
    shown = ids.encode(ids.Kind.JOB, job.id)
    trace = tracing.start_linked_span(f"submit jobs.{job.model}", job.traceparent, {"charonia.job_id": shown})
    wake_up = msgspec.structs.replace(job.wake_up, traceparent=trace)
    return msgspec.structs.replace(job, batch_id=batch_id, traceparent=trace, wake_up=wake_up)


def no_valid_item(checked: CheckedItems) -> Problem:
    """Return the problem of a body without a valid item."""
    errors = [
        FieldError(f"/{item.index}{error.pointer}", error.detail)
        for item in checked.errors[:MAX_ERRORS]
        for error in item.errors or [FieldError("", item.detail)]
    ]
    return invalid(*(errors or [FieldError("", "the batch is empty; send at least one job")]))


async def check_items(
    submitter: Submitter, caller: Key, batch_id: UUID, items: Items, traceparent: str
) -> CheckedItems:
    """Check all items of a batch, each as it arrives. Raises as ItemChecker.check does."""
    context = await submitter.make_context(caller, traceparent)
    return await ItemChecker(submitter, context, batch_id).check(items)
