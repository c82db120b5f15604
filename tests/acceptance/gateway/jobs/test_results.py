"""From submit to result, by a signed webhook or by polling."""

from datetime import timedelta

import msgspec

from tests.support.api.api_client import Api, Metrics, Output
from tests.support.api.model_inputs import LINES, picture
from tests.support.receivers.webhook_receiver import Receiver


async def test_text_of_an_image_arrives_in_a_signed_webhook(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    submitted = await api.submit("ocr", picture(), webhook={"url": inbox.url}, metadata={"page": 7})
    assert (submitted.status, submitted.webhook_status) == ("queued", "pending")

    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    assert msgspec.json.decode(delivery.request.body).keys() == {"type", "timestamp", "sequence", "data"}
    assert event.type == "job.succeeded"
    assert event.timestamp == msgspec.json.decode(delivery.request.body)["data"]["finished_at"]
    assert (event.data.id, event.data.status, event.data.metadata) == (submitted.id, "succeeded", {"page": 7})
    assert event.data.output("text") == LINES
    assert delivery.request.headers["content-type"] == "application/json"
    assert delivery.request.headers["user-agent"].startswith("Charonia/")

    job = await api.wait_for_webhooks(submitted.id)
    assert job == msgspec.structs.replace(event.data, webhook_status="succeeded")
    assert len(inbox.deliveries) == 1


async def test_job_can_be_polled(api: Api) -> None:
    submitted = await api.submit("echo", {"x": [[1.5, -2.0], [0.25, 4.0]]})
    assert (submitted.status, submitted.attempt, submitted.max_attempts) == ("queued", 0, 5)
    assert (submitted.outputs, submitted.error, submitted.webhook_status) == (None, None, None)
    assert (submitted.started_at, submitted.finished_at) == (None, None)
    assert submitted.metrics == Metrics(None, None, None)

    job = await api.wait(submitted.id)
    assert (job.status, job.model, job.version, job.priority) == ("succeeded", "echo", "1", "normal")
    assert job.outputs == [Output("y", "FP32", [2, 2], [3.0, -4.0, 0.5, 8.0])]
    assert (job.attempt, job.error, job.queue_position) == (1, None, None)
    assert (job.webhook_status, job.metadata) == ("none", {})
    assert (job.id, job.trace_id, job.created_at) == (submitted.id, submitted.trace_id, submitted.created_at)


async def test_job_reports_its_durations(api: Api) -> None:
    job = await api.run("work", {"ms": [[120]]})
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.created_at == job.run_at <= job.started_at <= job.finished_at
    assert job.finished_at - job.started_at >= timedelta(milliseconds=120)
    metrics, millisecond = job.metrics, timedelta(milliseconds=1)
    assert abs(job.started_at - job.run_at - (metrics.queue_ms or 0) * millisecond) <= millisecond  # it is rounded
    assert abs(job.finished_at - job.created_at - (metrics.total_ms or 0) * millisecond) <= millisecond
    assert 120 <= (metrics.inference_ms or 0) <= (job.finished_at - job.started_at) / millisecond + 1
