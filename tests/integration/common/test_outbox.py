"""Every committed row is published, even after a failure between the commit and the broker."""

import asyncio
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.jobs import Priority
from common.outbox import Outbox, OutboxRow, job_wake_up
from common.postgres.database import Database
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import JobQueued, JobsQueued
from common.rabbitmq.publisher import Publisher
from common.telemetry import tracing
from tests.integration.brokers import connected, drain, publishing
from tests.integration.jobs import TRACEPARENT
from tests.integration.waiting import until

UNSAMPLED = TRACEPARENT[:-1] + "0"
ADD = "INSERT INTO outbox (id, exchange, routing_key, body, traceparent) VALUES ($1, $2, $3, $4, $5)"


def new_model() -> str:
    return f"m{ids.new().hex}"


async def declare(url: str, model: str) -> str:
    """Declare the model's queues. Return the name of one."""
    async with connected(url) as channel:
        await topology.declare_exchanges(channel)
        await topology.declare_model_queues(channel, model)
    return topology.job_queue(model, Priority.NORMAL)


async def commit(database: Database, model: str) -> OutboxRow:
    row = job_wake_up(ids.new(), Priority.NORMAL, model, TRACEPARENT)
    await database.fetch(ADD, row.id, row.exchange, row.routing_key, row.body, row.traceparent)
    return row


async def make_overdue(database: Database) -> None:
    await database.fetch("UPDATE outbox SET due_at = now() - interval '1 second'")


async def list_left(database: Database) -> list[UUID]:
    return [record["id"] for record in await database.fetch("SELECT id FROM outbox ORDER BY id")]


async def test_announcing_publishes_at_once_and_deletes_the_row(database: Database, amqp_url: str) -> None:
    queue = await declare(amqp_url, model := new_model())
    async with publishing(amqp_url) as publisher:
        outbox = Outbox(database, publisher)
        row = await commit(database, model)
        outbox.announce([row])
        await outbox.drain(10)
    assert await list_left(database) == []
    (message,) = await drain(amqp_url, queue, 1)
    assert message.body == row.body
    assert message.message_id == str(row.id)
    assert tracing.trace_id(str(message.headers["traceparent"])) == tracing.trace_id(TRACEPARENT)


async def test_the_relay_publishes_after_a_crash_between_commit_and_publish(database: Database, amqp_url: str) -> None:
    queue = await declare(amqp_url, model := new_model())
    row = await commit(database, model)  # and does not announce it
    async with publishing(amqp_url) as publisher:
        outbox = Outbox(database, publisher)
        assert await outbox.relay_once() == 0  # the committing process still has time
        await make_overdue(database)
        assert await outbox.relay_once() == 1
    assert await list_left(database) == []
    (message,) = await drain(amqp_url, queue, 1)
    assert messages.decode(message.body) == messages.decode(row.body)


async def test_a_row_that_no_queue_takes_stays_and_is_postponed(database: Database, amqp_url: str) -> None:
    queue = await declare(amqp_url, model := new_model())
    unroutable, good = await commit(database, new_model()), await commit(database, model)
    await make_overdue(database)
    async with publishing(amqp_url) as publisher:
        outbox = Outbox(database, publisher)
        assert await outbox.relay_once() == 1
        assert await list_left(database) == [unroutable.id]
        assert await outbox.relay_once() == 0  # it is not due again for a while
        (due,) = await database.fetch("SELECT due_at > now() + interval '5 seconds' AS later FROM outbox")
        assert due["later"]
    (message,) = await drain(amqp_url, queue, 1)
    assert message.message_id == str(good.id)


async def test_a_row_is_kept_while_the_broker_is_down(database: Database) -> None:
    outbox = Outbox(database, Publisher("amqp://127.0.0.1:1/", "tests"))
    row = await commit(database, new_model())
    outbox.announce([row])
    await outbox.drain(10)
    assert not await outbox.publish(row)
    await make_overdue(database)
    assert await outbox.relay_once() == 0
    assert await list_left(database) == [row.id]


async def test_two_relays_publish_each_row_once(database: Database, amqp_url: str) -> None:
    queue = await declare(amqp_url, model := new_model())
    jobs = {(await commit(database, model)).id for _ in range(20)}
    await make_overdue(database)
    async with publishing(amqp_url) as one, publishing(amqp_url) as other:
        outboxes = [Outbox(database, one), Outbox(database, other)]

        async def relayed() -> bool:
            await asyncio.gather(*(outbox.relay_once() for outbox in outboxes))
            return await list_left(database) == []

        await until(relayed, "all rows are published")
    assert sorted(str(message.message_id) for message in await drain(amqp_url, queue, 20)) == sorted(map(str, jobs))


async def test_one_message_announces_several_rows_and_its_confirm_deletes_them(
    database: Database, amqp_url: str
) -> None:
    queue = await declare(amqp_url, model := new_model())
    rows = [
        msgspec.structs.replace(await commit(database, model), traceparent=UNSAMPLED, max_per_message=8)
        for _ in range(10)
    ]
    async with publishing(amqp_url) as publisher:
        outbox = Outbox(database, publisher)
        outbox.announce(rows)
        await outbox.drain(10)
    assert await list_left(database) == []
    found = [messages.decode(message.body) for message in await drain(amqp_url, queue, 2)]
    announced = [JobQueued(job) for message in found if isinstance(message, JobsQueued) for job in message.job_ids]
    assert sorted(announced, key=repr) == sorted((messages.decode(row.body) for row in rows), key=repr)


@pytest.mark.parametrize("number", [1, 30])
async def test_many_rows_are_deleted_together(database: Database, amqp_url: str, number: int) -> None:
    queue = await declare(amqp_url, model := new_model())
    rows = [await commit(database, model) for _ in range(number)]
    async with publishing(amqp_url) as publisher:
        outbox = Outbox(database, publisher)
        outbox.announce(rows)
        await outbox.drain(10)
    assert await list_left(database) == []
    found = {messages.decode(message.body) for message in await drain(amqp_url, queue, number)}
    assert found == {messages.decode(row.body) for row in rows}
    assert all(isinstance(message, JobQueued) for message in found)
