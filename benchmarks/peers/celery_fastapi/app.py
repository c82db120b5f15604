"""The Celery application, for the API that publishes tasks and for the worker that runs them.

The settings follow Celery's guides to optimizing and to RabbitMQ. Results are rows, so there is no result backend.
"""

import os

from celery import Celery

app = Celery("peers", broker=os.environ["BROKER_URL"], include=["benchmarks.peers.celery_fastapi.tasks"])
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,  # a killed worker's job runs again
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,  # tasks are short
    worker_enable_remote_control=False,
    broker_transport_options={"confirm_publish": True},  # an accepted job's message is not lost
    broker_connection_retry_on_startup=True,
)
