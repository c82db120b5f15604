"""The broker, for the API that publishes tasks and for the worker that runs them.

The queues are classic, as those of the others. A failed task runs again after a pause in a queue of its own.
"""

import os

from taskiq import SmartRetryMiddleware
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue, QueueType

from benchmarks.peers.common import CONCURRENCY

broker = AioPikaBroker(
    os.environ["BROKER_URL"],
    qos=CONCURRENCY,
    task_queues=[Queue(name="jobs", type=QueueType.CLASSIC)],
    dead_letter_queue=Queue(name="jobs.dead", type=QueueType.CLASSIC),
    delay_queue=Queue(name="jobs.delayed", type=QueueType.CLASSIC),
).with_middlewares(SmartRetryMiddleware(default_retry_count=10, default_delay=5, use_delay_exponent=True))
