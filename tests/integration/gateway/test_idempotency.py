"""What was accepted under a key is answered as it was, for a day, whatever else has changed since."""

from collections.abc import AsyncIterator
from uuid import UUID

import msgspec
import pytest

from common.addresses import Policy
from common.broker import Publisher
from common.database import Database
from common.job_view import JobRow
from common.outbox import Outbox
from common.tensors import Datatype, Signature
from services.dispatcher.store import Store as DispatcherStore
from services.dispatcher.triton import Model
from services.gateway.catalogue import Catalogue
from services.gateway.errors import Problem
from services.gateway.idempotency import Repeats, read_label
from services.gateway.idempotency_store import IdempotencyStore
from services.gateway.limit_store import LimitStore
from services.gateway.queues import Queues
from services.gateway.schemas import SubmitJob
from services.gateway.store import Store
from services.gateway.submit import Submitter
from services.gateway.workers import Workers
from tests.integration.jobs import TRACEPARENT, claim, new_end

REQUEST = SubmitJob(model="echo", inputs={"x": [[1.0]]}, metadata={"order": 7}, expires_in=60.0)
FLAT = [Signature("x", Datatype.FP32, [-1, -1])]


@pytest.fixture
async def outbox(database: Database) -> AsyncIterator[Outbox]:
    outbox = Outbox(database, Publisher("amqp://127.0.0.1:1/", "tests"))
    yield outbox
    await outbox.drain(5)


def new_submitter(database: Database, outbox: Outbox, most: int = 100) -> Submitter:
    """A gateway's, that has seen nothing yet; so many jobs of a tenant may wait."""
    store = Store(database)
    queues = Queues(LimitStore(database), most, 100)
    policy = Policy.parse((), allow_http=False)
    repeats = Repeats(IdempotencyStore(database))
    return Submitter(store, Catalogue(store), outbox, policy, queues, repeats, Workers())


async def submit(
    submitter: Submitter, tenant: UUID, key: str | None = "key", request: SubmitJob = REQUEST
) -> tuple[JobRow, bool]:
    """The job, and whether it was submitted before."""
    body = msgspec.json.encode(request)
    submitted = await submitter.take(body, await submitter.ask(tenant, TRACEPARENT, read_label(key, body)))
    return submitted.row, submitted.replayed


async def offer(database: Database, inputs: list[Signature]) -> None:
    await DispatcherStore(database).save_models([(Model("echo", "1", False, 0, 1, inputs, []), True)])


async def test_a_repeat_needs_no_room_no_model_and_no_signature(
    database: Database, outbox: Outbox, tenant: UUID
) -> None:
    await offer(database, FLAT)
    submitter = new_submitter(database, outbox, most=1)
    first, replayed = await submit(submitter, tenant)
    assert not replayed
    for change, refusal in [
        ("SELECT", "queue_full"),
        ("UPDATE models SET inputs = '[]'", "invalid_request"),
        ("DELETE FROM models", "model_not_found"),
    ]:
        await database.fetch(change)
        later = new_submitter(database, outbox, most=1)
        assert await submit(later, tenant) == (first, True)
        for other in (None, "another"):
            with pytest.raises(Problem) as caught:
                await submit(later, tenant, other)
            assert caught.value.code == refusal
        changed = msgspec.structs.replace(REQUEST, timeout=1.0)
        with pytest.raises(Problem) as caught:
            await submit(later, tenant, request=changed)
        assert [error.pointer for error in caught.value.errors] == ["Idempotency-Key"]
    assert len(await database.fetch("SELECT FROM jobs")) == 1


async def test_repeats_take_up_no_room(database: Database, outbox: Outbox, tenant: UUID) -> None:
    await offer(database, FLAT)
    submitter = new_submitter(database, outbox, most=2)
    for _ in range(5):
        await submit(submitter, tenant)
    assert not (await submit(submitter, tenant, None))[1]


async def test_a_key_outlives_its_job(database: Database, outbox: Outbox, tenant: UUID) -> None:
    """Where jobs are kept for less than a day."""
    await offer(database, FLAT)
    submitter = new_submitter(database, outbox)
    first, _ = await submit(submitter, tenant)
    dispatcher = DispatcherStore(database)
    ended = new_end(await claim(database, first.id))
    await dispatcher.end_jobs([ended])
    await database.fetch("UPDATE events SET fanned_out_at = now()")
    await database.fetch("UPDATE jobs SET finished_at = now() - interval '1 hour'")
    assert (await dispatcher.purge_jobs(60.0, 10)).removed == 1
    assert await dispatcher.purge_keys(10) == 0
    assert await submit(submitter, tenant) == (first, True)
    assert await database.fetch("SELECT FROM jobs") == []
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    assert await dispatcher.purge_keys(10) == 1
    assert not (await submit(submitter, tenant))[1]
