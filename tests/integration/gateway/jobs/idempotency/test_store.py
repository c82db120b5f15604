"""For a day, a repeated request gets the first response, whatever has changed since."""

from uuid import UUID

import msgspec
import pytest

from common import ids
from common.jobs.end import end_jobs
from common.jobs.job import Job
from common.postgres.database import Database
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.tensors import Datatype, Signature
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.auth.store import Key
from services.gateway.http.problems import Problem
from services.gateway.jobs.idempotency.keys import parse_request_key
from services.gateway.jobs.idempotency.store import IdempotencyStore
from services.gateway.jobs.schemas import SubmitJob
from services.gateway.jobs.submit import Submitter
from tests.integration.forgetting import forget
from tests.integration.jobs import TRACEPARENT, claim, new_end
from tests.integration.stores import Stores
from tests.integration.submitters import new_body_lease, new_submitter
from tests.integration.transactions import OpenTransaction

REQUEST = SubmitJob(model="echo", inputs={"x": [[1.0]]}, metadata={"order": 7}, expires_in=60.0)
FLAT = [Signature("x", Datatype.FP32, [-1, -1])]


@pytest.fixture
def wake_ups() -> WakeUpPublisher:
    return WakeUpPublisher(Publisher("amqp://127.0.0.1:1/", "tests"))


async def submit(
    submitter: Submitter, tenant: UUID, key: str | None = "key", request: SubmitJob = REQUEST
) -> tuple[Job, bool]:
    """Submit a job. Return it, and whether it was replayed."""
    body = msgspec.json.encode(request)
    context = await submitter.make_context(Key(ids.new(), tenant), TRACEPARENT, parse_request_key(key, body))
    submitted = await submitter.submit(body, context, new_body_lease())
    return submitted.row, submitted.replayed


async def offer(database: Database, inputs: list[Signature]) -> None:
    await Stores(database).models.save_models([(ModelVersion("echo", "1", False, 0, 1, inputs, []), True)])


async def test_a_repeat_needs_no_capacity_and_no_model(
    database: Database, wake_ups: WakeUpPublisher, tenant: UUID
) -> None:
    await offer(database, FLAT)
    submitter = new_submitter(database, wake_ups, most=1)
    first, replayed = await submit(submitter, tenant)
    assert not replayed
    for change, refusal in [
        ("SELECT", "queue_full"),
        ("UPDATE served_models SET inputs = '[]'", "invalid_request"),
        ("DELETE FROM served_models", "model_not_found"),
    ]:
        await database.fetch(change)
        later = new_submitter(database, wake_ups, most=1)
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


async def test_repeats_do_not_count_against_the_limit(
    database: Database, wake_ups: WakeUpPublisher, tenant: UUID
) -> None:
    await offer(database, FLAT)
    submitter = new_submitter(database, wake_ups, most=2)
    for _ in range(5):
        await submit(submitter, tenant)
    assert not (await submit(submitter, tenant, None))[1]


async def test_a_key_outlives_its_job(database: Database, wake_ups: WakeUpPublisher, tenant: UUID) -> None:
    """With a retention of less than a day."""
    await offer(database, FLAT)
    submitter = new_submitter(database, wake_ups)
    first, _ = await submit(submitter, tenant)
    stores = Stores(database)
    ended = new_end(await claim(database, first.id))
    await end_jobs(database, [ended])
    assert await forget(database) == 1
    assert await stores.retention.remove_keys(10) == 0
    assert await submit(submitter, tenant) == (first, True)
    assert await database.fetch("SELECT FROM jobs") == []
    await database.fetch("UPDATE idempotency_keys SET created_at = now() - interval '25 hours'")
    assert await stores.retention.remove_keys(10) == 1
    assert not (await submit(submitter, tenant))[1]


async def test_a_key_that_is_free_costs_no_commit(database: Database, tenant: UUID) -> None:
    async with database.transaction() as connection:
        assert await IdempotencyStore(OpenTransaction(connection)).find_records([(tenant, "free")]) == {}
        assert await connection.fetchval("SELECT pg_current_xact_id_if_assigned()") is None
