"""Wake-ups reach their queue, several in one message if they can share one."""

from common import ids
from common.job_states import Priority
from common.rabbitmq import messages, topology
from common.rabbitmq.messages import JobsQueued, QueuedJob
from common.rabbitmq.publisher import Publisher
from common.rabbitmq.wake_ups import WakeUpPublisher, job_wake_up
from common.telemetry import tracing
from tests.integration.brokers import connected, drain, publishing
from tests.integration.handlers import declare_model_queues
from tests.integration.jobs import TRACEPARENT

UNSAMPLED = TRACEPARENT[:-1] + "0"
JOB = QueuedJob(ids.new(), ids.new())


def new_model() -> str:
    return f"m{ids.new().hex}"


async def declare(url: str, model: str) -> str:
    """Declare the model's queues. Return the name of one."""
    async with connected(url) as channel:
        await topology.declare_exchanges(channel)
        await declare_model_queues(channel, model)
    return topology.job_queue(model, Priority.NORMAL)


async def test_a_sampled_wake_up_carries_its_trace(amqp_url: str) -> None:
    queue = await declare(amqp_url, model := new_model())
    async with publishing(amqp_url) as publisher:
        wake_ups = WakeUpPublisher(publisher)
        wake_ups.announce([job_wake_up(JOB, Priority.NORMAL, model, TRACEPARENT)])
        await wake_ups.drain(10)
    (message,) = await drain(amqp_url, queue, 1)
    assert messages.decode(message.body) == JobsQueued([JOB])
    assert tracing.trace_id(str(message.headers["traceparent"])) == tracing.trace_id(TRACEPARENT)


async def test_one_message_announces_several_jobs(amqp_url: str) -> None:
    queue = await declare(amqp_url, model := new_model())
    async with publishing(amqp_url) as publisher:
        wake_ups = WakeUpPublisher(publisher)
        wake_ups.announce([job_wake_up(JOB, Priority.NORMAL, model, UNSAMPLED, 8) for _ in range(10)])
        await wake_ups.drain(10)
    found = [messages.decode(message.body) for message in await drain(amqp_url, queue, 2)]
    assert sorted(len(message.jobs) for message in found if isinstance(message, JobsQueued)) == [2, 8]


async def test_a_wake_up_that_no_queue_takes_is_reported(amqp_url: str) -> None:
    async with publishing(amqp_url) as publisher:
        wake_ups = WakeUpPublisher(publisher)
        assert not await wake_ups.publish([job_wake_up(JOB, Priority.NORMAL, new_model(), TRACEPARENT)])


async def test_nothing_is_kept_while_the_broker_is_away() -> None:
    wake_ups = WakeUpPublisher(Publisher("amqp://127.0.0.1:1/", "tests"))
    wake_up = job_wake_up(JOB, Priority.NORMAL, new_model(), TRACEPARENT)
    wake_ups.announce([wake_up])
    await wake_ups.drain(10)
    assert not await wake_ups.publish([wake_up])


async def test_ready_messages_are_counted_in_queues_that_exist(amqp_url: str) -> None:
    queue, empty = await declare(amqp_url, model := new_model()), await declare(amqp_url, new_model())
    async with publishing(amqp_url) as publisher:
        wake_ups = WakeUpPublisher(publisher)
        assert await wake_ups.publish([job_wake_up(JOB, Priority.NORMAL, model, UNSAMPLED)])
        ready = await publisher.count_ready([empty, "jobs.absent.normal", queue])
        assert ready == {empty: 0, queue: 1}
        assert publisher.connection.is_up
