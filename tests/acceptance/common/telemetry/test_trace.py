"""One job is one trace, from the client's request to the receiver's webhook, whatever happens."""

import asyncio
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import msgspec
import pytest

from deploy.local.processes.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import fault, work
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.own_gateway import another_gateway
from tests.support.telemetry.expected_traces import (
    BATCH,
    BATCH_JOB,
    CANCELED,
    CANCELED_EARLY,
    FAILED_TWICE,
    REQUIRED,
    RUN,
    SUCCEEDED,
    TRITON,
)
from tests.support.telemetry.otlp_collector import Collector, GrpcCollector, Span
from tests.support.telemetry.scraped_metrics import wait_for_metric
from tests.support.telemetry.trace_tree import render_tree, wait_for_tree
from tests.support.waiting import eventually

ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
JOBS = 5


class TracedClient:
    """A caller with its own trace."""

    def __init__(self, flags: str = "01") -> None:
        self.trace, self.span = secrets.token_hex(16), secrets.token_hex(8)
        self.headers = {"traceparent": f"00-{self.trace}-{self.span}-{flags}"}


async def test_job_is_one_trace_from_the_client_to_the_receiver(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox, client = receiver.inbox(), TracedClient()
    job = await api.post(ECHO | {"webhook": {"url": inbox.url}}, client.headers)
    assert job.trace_id == client.trace
    (delivery,) = await inbox.wait()
    spans = await wait_for_tree(collector, client.trace, SUCCEEDED, client.span)
    (last,) = [span for span in spans if span.name == "POST webhook"]
    assert delivery.request.headers["traceparent"] == f"00-{client.trace}-{last.id}-01"
    assert last.attributes["url.full"] == str(httpx.URL(inbox.url).join("/REDACTED"))
    for span in spans:
        assert REQUIRED.get(span.name, set()) <= span.attributes.keys(), span
    assert measure_queue_time(spans) == round((await api.get(job.id)).metrics.queue_ms or 0)


async def test_a_run_is_one_trace_with_the_jobs_of_its_steps(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    steps = {
        "first": {"model": "echo", "inputs": {"x": "$inputs.x"}},
        "last": {"model": "echo", "inputs": {"x": "$first.y"}},
    }
    inputs = {"x": {"datatype": "FP32", "shape": [-1, -1]}}
    definition = {"inputs": inputs, "steps": steps, "outputs": {"y": "$last.y"}}
    assert (await api.http.put("/v1/pipelines/traced", json=definition)).is_success
    inbox, client = receiver.inbox(), TracedClient()
    job = await api.post(ECHO | {"model": "traced", "webhook": {"url": inbox.url}}, client.headers)
    assert job.trace_id == client.trace
    (delivery,) = await inbox.wait()
    spans = await wait_for_tree(collector, client.trace, RUN, client.span)
    (last,) = [span for span in spans if span.name == "POST webhook"]
    assert delivery.request.headers["traceparent"] == f"00-{client.trace}-{last.id}-01"


def measure_queue_time(spans: list[Span]) -> int:
    """Return how long the job was queued, in milliseconds."""
    (wait,) = [span for span in spans if span.name == "queued jobs.echo"]
    return round((wait.end - wait.start) / 1e6)


async def test_trace_has_each_attempt_at_a_job_and_at_its_webhook(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox, client = receiver.inbox(500, 503), TracedClient()
    inputs, retry = fault("fail_times", 1), {"initial_delay": 0.01}
    request = {"model": "faulty", "inputs": inputs, "retry": retry, "webhook": {"url": inbox.url}}
    await api.post(request, client.headers)
    spans = await wait_for_tree(collector, client.trace, FAILED_TWICE, client.span)
    sent = sorted((span for span in spans if span.name == "POST webhook"), key=lambda span: span.start)
    assert [span.attributes.get("http.request.resend_count", 0) for span in sent] == [0, 1, 2]


async def test_cancellation_is_in_the_trace_of_the_job_and_its_request_links_to_it(
    stack: Stack, api: Api, collector: Collector
) -> None:
    client, canceler = TracedClient(), TracedClient()
    job = await api.post({"model": "work", "inputs": work(30_000)}, client.headers)
    await wait_for_metric(stack.triton.metrics_url, "work_executions_total", 1, request_id=job.id)
    await cancel(api, job, canceler)
    await wait_for_tree(collector, client.trace, CANCELED, client.span)
    await check_link(collector, canceler, "SERVER POST /v1/jobs/{job_id}/cancel", job)


async def test_trace_of_a_job_that_never_started_shows_its_time_in_the_queue(api: Api, collector: Collector) -> None:
    client, canceler = TracedClient(), TracedClient()
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await api.post(ECHO | {"run_at": tomorrow}, client.headers)
    await cancel(api, job, canceler)
    spans = await wait_for_tree(collector, client.trace, CANCELED_EARLY, client.span)
    assert [span.links for span in spans if span.name == "queued jobs.echo"] == [(canceler.trace,)]
    await check_link(collector, canceler, "SERVER POST /v1/jobs/{job_id}/cancel", job)


async def cancel(api: Api, job: Job, client: TracedClient) -> None:
    read(await api.http.post(f"/v1/jobs/{job.id}/cancel", headers=client.headers), 202, Job)


async def check_link(collector: Collector, client: TracedClient, expected: str, job: Job) -> None:
    """Check that a request about a job links to the job's trace."""
    (span,) = await wait_for_tree(collector, client.trace, expected, client.span)
    assert span.links == (job.trace_id,)


async def test_jobs_of_a_batch_have_their_own_traces_linked_to_it(api: Api, collector: Collector) -> None:
    client = TracedClient()
    items = ECHO, {"model": "work", "inputs": work(1)}  # with the same model, one job might run by the other's wake-up
    lines = b"".join(msgspec.json.encode(item) + b"\n" for item in items)
    headers = {"content-type": "application/x-ndjson"} | client.headers
    response = await api.http.post("/v1/batches", content=lines, headers=headers)
    jobs = (await api.http.get("/v1/jobs", params={"batch": response.json()["id"]})).json()["items"]
    await wait_for_tree(collector, client.trace, BATCH, client.span)
    assert len({job["trace_id"] for job in jobs} | {client.trace}) == 3
    for job in jobs:
        spans = await wait_for_tree(collector, job["trace_id"], BATCH_JOB.format(model=job["model"]))
        assert [span.links for span in spans if span.parent == ""] == [(client.trace,)]


async def test_job_keeps_its_trace_when_its_gateway_dies_before_publishing(
    stack: Stack, api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox, client = receiver.inbox(), TracedClient()
    unreachable = f"amqp://guest:guest@{HOST}:{free_ports(1)[0]}/"
    async with another_gateway(stack, CHARONIA_AMQP_URL=unreachable) as gateway:
        async with open_client(stack, DEVELOPMENT_KEY, gateway.url) as other:
            job = await other.post(ECHO | {"webhook": {"url": inbox.url}}, client.headers)
        await collector.wait(client.trace, {"POST /v1/jobs"})
        await asyncio.to_thread(gateway.kill)
    assert (await api.wait(job.id)).status == "succeeded"
    spans = await wait_for_tree(collector, client.trace, SUCCEEDED, client.span)
    (sent,) = [span for span in spans if span.name == "send charonia.jobs"]
    assert sent.service in ("charonia-gateway", "charonia-dispatcher", "charonia-notifier")


async def test_unsampled_traces_export_only_failed_spans(api: Api, receiver: Receiver, collector: Collector) -> None:
    inbox, client, later = receiver.inbox(500), TracedClient("00"), TracedClient()
    job = await api.post(ECHO | {"webhook": {"url": inbox.url}}, client.headers)
    *_, last = await inbox.wait(2)
    assert last.request.headers["traceparent"].startswith(f"00-{job.trace_id}-")
    assert last.request.headers["traceparent"].endswith("-00")
    await api.wait_for_webhooks(job.id)
    await api.post(ECHO | {"webhook": {"url": inbox.url}}, later.headers)
    await wait_for_tree(collector, later.trace, SUCCEEDED, later.span)  # earlier spans have been exported by then
    assert render_tree(collector.trace(client.trace), client.span) == "ORPHAN CLIENT POST webhook ! 500"
    (failed,) = collector.trace(client.trace)
    assert failed.attributes["charonia.job_id"] == job.id
    assert REQUIRED["POST webhook"] <= failed.attributes.keys()


async def test_spans_of_triton_join_the_trace(api: Api, collector: Collector) -> None:
    jobs = [await api.run("echo", {"x": [[1.0]]}) for _ in range(JOBS)]

    async def poll() -> dict[str, Span] | None:
        traces = [{span.name: span for span in collector.trace(job.trace_id)} for job in jobs]
        return next((spans for spans in traces if spans.keys() >= {*TRITON, "infer echo"}), None)

    spans = await eventually(poll, "a trace with Triton's spans")
    assert {name: spans[name].parent for name in TRITON} == {name: spans[parent].id for name, parent in TRITON.items()}


@pytest.fixture
def grpc_collector() -> Iterator[GrpcCollector]:
    collector = GrpcCollector()
    yield collector
    collector.close()


async def test_spans_are_exported_over_grpc(stack: Stack, grpc_collector: GrpcCollector) -> None:
    client = TracedClient()
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": grpc_collector.url}
    async with (
        another_gateway(stack, **variables) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=45) as http,
    ):
        headers = client.headers | {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
        read(await http.post("/v1/jobs", json=ECHO, headers=headers), 202, Job)
        gateway_part = SUCCEEDED.partition("    INTERNAL")[0]  # the other services export over HTTP
        await wait_for_tree(grpc_collector, client.trace, gateway_part, client.span)
