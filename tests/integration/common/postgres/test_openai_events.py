"""The database sends the ends of responses in OpenAI's words to subscriptions that want them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.job_states import Failure, Status
from common.jobs.end import end_jobs
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from common.views.batch import BatchBody, BatchRow, view_batch
from common.views.job import format_time
from common.views.openai_event import OpenAIEvent
from services.gateway.openai.calls.record import Endpoint, write_record
from services.gateway.openai.ids import Prefix, encode
from services.gateway.openai.responses.rendering import INCOMPLETE
from services.gateway.webhooks.deliveries.store import DeliveryStore
from tests.integration.deliveries import CALLBACK, EVENT, subscribe
from tests.integration.jobs import add_tenant, claim, new_end, new_requeue, submit

RESPONSE = {"request": write_record(Endpoint.RESPONSES, b'{"model": "echo", "input": "\\u0000"}')}
LOST = Failure("expired", "too late", False)
FOUND = "SELECT id, event_type, webhook_id, job_id FROM live_deliveries WHERE job_id = $1 ORDER BY id"
# What a notifier sends, and the time of the event.
SENT = """
SELECT r.body, e.id AS event_id, floor(extract(epoch FROM e.created_at))::bigint AS at
FROM delivery_requests r
JOIN live_deliveries d USING (id)
JOIN events e ON e.id = d.event_id
WHERE r.id = $1
"""


async def end(database: Database, job: UUID, status: Status = Status.SUCCEEDED, **changes: Any) -> None:
    claimed = await claim(database, job)
    if status is Status.CANCELED:
        await database.fetch("UPDATE jobs SET status = 'canceling' WHERE id = $1", job)
    if status is Status.EXPIRED:
        await requeue_jobs(database, [new_requeue(claimed)])
        changes |= {"was": "queued"}
    assert await end_jobs(database, [new_end(claimed, status, **changes)])


async def read_sent(database: Database, delivery: UUID) -> OpenAIEvent:
    """Return what a notifier sends."""
    (sent,) = await database.fetch(SENT, delivery)
    return msgspec.json.decode(sent["body"], type=OpenAIEvent)


async def list_types(database: Database, job: UUID) -> list[str]:
    return [record["event_type"] for record in await database.fetch(FOUND, job)]


@pytest.mark.parametrize("number", [0, 1, 2**128 - 1, 0x019A9C5B7F3E7ABC8DEF0123456789AB])
async def test_the_database_writes_and_reads_ids_as_the_services_do(database: Database, number: int) -> None:
    value = UUID(int=number)
    shown = ids.encode(ids.Kind.EVENT, value)
    record = await database.fetch_one("SELECT public_id('evt', $1) AS shown, private_id($2) AS value", value, shown)
    assert record is not None
    assert tuple(record.values()) == (shown, value)


async def test_the_database_finds_the_batch_of_an_event(database: Database) -> None:
    row = BatchRow(id=ids.new(), total=1, accepted=1, created_at=datetime.now(UTC), finished_at=None)
    view = view_batch(row, {}, "")
    body = msgspec.json.encode(BatchBody("batch.completed", format_time(row.created_at), view))
    record = await database.fetch_one("SELECT batch_of($1) AS batch", body)
    assert record is not None
    assert record["batch"] == view.id


@pytest.mark.parametrize(
    ("status", "changes", "expected"),
    [
        (Status.SUCCEEDED, {}, "response.completed"),
        (Status.SUCCEEDED, {"finish_reason": "stop"}, "response.completed"),
        *((Status.SUCCEEDED, {"finish_reason": each}, "response.incomplete") for each in INCOMPLETE),
        (Status.FAILED, {}, "response.failed"),
        (Status.CANCELED, {"failure": None}, "response.cancelled"),
        (Status.EXPIRED, {"failure": LOST}, "response.failed"),
    ],
)
async def test_each_end_of_a_response_has_openais_name(
    database: Database, tenant: UUID, status: Status, changes: dict[str, Any], expected: str
) -> None:
    await subscribe(database, tenant, format="openai", events=["*"])
    job = await submit(database, tenant, **RESPONSE)
    await end(database, job, status, **changes)
    assert await list_types(database, job) == [expected]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["response.completed"], ["response.completed"]),
        (["response.*"], ["response.completed"]),
        (["*.completed"], ["response.completed"]),
        (["response.failed", "batch.*"], []),
    ],
)
async def test_a_subscription_gets_the_events_that_it_names(
    database: Database, tenant: UUID, events: list[str], expected: list[str]
) -> None:
    await subscribe(database, tenant, format="openai", events=events)
    job = await submit(database, tenant, **RESPONSE)
    await end(database, job)
    assert await list_types(database, job) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"request": write_record(Endpoint.CHAT, b"{}")},
        {"request": write_record(Endpoint.RESPONSES, b'{"store": false}', store=False)},
        RESPONSE | {"batch_id": UUID(int=1)},
        RESPONSE | {"model": "small"},
    ],
    ids=["job", "chat", "not stored", "line of a batch", "another model"],
)
async def test_what_openai_has_no_event_for_is_not_sent(
    database: Database, tenant: UUID, changes: dict[str, Any]
) -> None:
    await subscribe(database, tenant, format="openai", events=["*"], models=["echo"])
    job = await submit(database, tenant, **changes)
    await end(database, job)
    assert await list_types(database, job) == []


async def test_the_start_of_a_job_is_no_event_for_openai(database: Database, tenant: UUID) -> None:
    await subscribe(database, tenant, format="openai", events=["*"])
    job = await submit(database, tenant, **RESPONSE)
    assert not (await claim(database, job)).wants_started
    await database.fetch(EVENT, ids.new(), tenant, job, "echo", "job.started")
    assert await list_types(database, job) == []


async def test_the_body_is_openais_and_the_same_wherever_it_is_read(database: Database, tenant: UUID) -> None:
    webhook = (await subscribe(database, tenant, format="openai", events=["*"])).id
    job = await submit(database, tenant, **RESPONSE)
    await end(database, job)
    (delivery,) = await database.fetch(FOUND, job)
    assert delivery["webhook_id"] == webhook
    (sent,) = await database.fetch(SENT, delivery["id"])
    body = msgspec.json.decode(sent["body"], type=OpenAIEvent)
    event_id = ids.encode(ids.Kind.EVENT, sent["event_id"])
    assert (body.object, body.id, body.type, body.created_at) == ("event", event_id, "response.completed", sent["at"])
    assert body.data.id == encode(Prefix.RESPONSE, job)
    assert await DeliveryStore(database).find_body(delivery["id"], tenant) == sent["body"]


async def test_other_receivers_get_the_event_as_before(database: Database, tenant: UUID) -> None:
    own = (await subscribe(database, tenant)).id
    await subscribe(database, tenant, format="openai", events=["batch.*"])
    await subscribe(database, await add_tenant(database, "other"), format="openai", events=["*"])
    job = await submit(database, tenant, **RESPONSE, **CALLBACK)
    await end(database, job)
    found = await database.fetch(FOUND, job)
    assert {(each["webhook_id"], each["event_type"]) for each in found} == {
        (own, "job.succeeded"),
        (None, "job.succeeded"),
    }
    for each in found:
        (sent,) = await database.fetch(SENT, each["id"])
        assert sent["body"] == b"{}"
