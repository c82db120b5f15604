"""One job is one trace, from the client's request to the receiver's webhook, whatever happens on the way."""

import asyncio
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import msgspec
import pytest

from deploy.local.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job, read
from tests.acceptance.collector import Collector, GrpcCollector, Span
from tests.acceptance.conftest import open_client
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import fault, work
from tests.acceptance.serving import another_gateway
from tests.acceptance.tree import draw, wait_for_tree
from tests.acceptance.waiting import eventually

ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
WHOLE = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.echo
    CONSUMER process jobs.echo = succeeded
      CLIENT infer echo
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
          CLIENT POST webhook
"""
FAILED_TWICE = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.faulty
    CONSUMER process jobs.faulty = retried ! inference_failed
      CLIENT infer faulty ! inference_failed
      CLIENT UPDATE jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.faulty
    CONSUMER process jobs.faulty = succeeded
      CLIENT infer faulty
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
          CLIENT POST webhook ! 500
          CLIENT POST webhook ! 503
          CLIENT POST webhook
"""
CANCELED = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.work
    CONSUMER process jobs.work = canceled (canceling)
      CLIENT infer work
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
  PRODUCER send charonia.control
"""
CANCELED_EARLY = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  INTERNAL queued jobs.echo = canceled
    PRODUCER send charonia.events
      CONSUMER process notifier.events
"""
OF_A_BATCH = """
INTERNAL submit jobs.{model}
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.{model}
    CONSUMER process jobs.{model} = succeeded
      CLIENT infer {model}
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
"""
BATCH = """
SERVER POST /v1/batches
  PRODUCER send charonia.events
    CONSUMER process notifier.events
"""
# What the conventions ask of each kind of span, and names of ours that say whose it is.
REQUIRED = {
    "POST /v1/jobs": {
        *("http.request.method", "http.route", "http.response.status_code", "url.path", "url.scheme"),
        *("server.address", "server.port", "client.address", "network.protocol.version"),
    },
    "INSERT jobs": {"db.system.name", "db.operation.name", "db.collection.name", "db.query.summary"},
    "send charonia.jobs": {
        *("messaging.system", "messaging.operation.name", "messaging.operation.type", "messaging.destination.name"),
        *("messaging.message.id", "messaging.rabbitmq.destination.routing_key"),
    },
    "queued jobs.echo": {"charonia.job_id", "charonia.tenant_id", "charonia.model", "charonia.priority"},
    "process jobs.echo": {
        *("messaging.system", "messaging.operation.name", "messaging.operation.type", "messaging.destination.name"),
        *("charonia.job_id", "charonia.tenant_id", "charonia.model", "charonia.attempt", "charonia.outcome"),
    },
    "infer echo": {"rpc.system.name", "rpc.method", "charonia.model", "charonia.job_id"},
    "process notifier.events": {"messaging.system", "messaging.operation.name", "messaging.destination.name"},
    "POST webhook": {
        *("http.request.method", "http.response.status_code", "server.address", "server.port", "url.full"),
        *("charonia.delivery_id", "charonia.job_id"),
    },
}
# What Triton adds. It overlooks up to a tenth of all requests, so one of several has to show it.
TRITON = {"InferRequest": "infer echo", "echo": "InferRequest", "compute": "echo"}
JOBS = 5


class Client:
    """A caller with a trace of its own."""

    def __init__(self, flags: str = "01") -> None:
        self.trace, self.span = secrets.token_hex(16), secrets.token_hex(8)
        self.headers = {"traceparent": f"00-{self.trace}-{self.span}-{flags}"}


async def test_a_job_is_one_trace_from_the_client_to_the_receiver(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox, client = receiver.inbox(), Client()
    job = await api.post(ECHO | {"webhook": {"url": inbox.url}}, client.headers)
    assert job.trace_id == client.trace
    (delivery,) = await inbox.wait()
    spans = await wait_for_tree(collector, client.trace, WHOLE, client.span)
    (last,) = [span for span in spans if span.name == "POST webhook"]
    assert delivery.request.headers["traceparent"] == f"00-{client.trace}-{last.id}-01"
    assert last.attributes["url.full"] == str(httpx.URL(inbox.url).join("/REDACTED"))
    for span in spans:
        assert REQUIRED.get(span.name, set()) <= span.attributes.keys(), span
    assert measure_wait(spans) == round((await api.get(job.id)).metrics.queue_ms or 0)


def measure_wait(spans: list[Span]) -> int:
    """How long the job was queued, in milliseconds."""
    (wait,) = [span for span in spans if span.name == "queued jobs.echo"]
    return round((wait.end - wait.start) / 1e6)


async def test_each_attempt_at_a_job_and_at_its_webhook_is_in_the_trace(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox, client = receiver.inbox(500, 503), Client()
    inputs, retry = fault("fail_times", 1), {"initial_delay": 0.01}
    request = {"model": "faulty", "inputs": inputs, "retry": retry, "webhook": {"url": inbox.url}}
    await api.post(request, client.headers)
    spans = await wait_for_tree(collector, client.trace, FAILED_TWICE, client.span)
    sent = sorted((span for span in spans if span.name == "POST webhook"), key=lambda span: span.start)
    assert [span.attributes.get("http.request.resend_count", 0) for span in sent] == [0, 1, 2]


async def test_a_cancellation_is_in_the_jobs_trace_and_its_request_points_there(api: Api, collector: Collector) -> None:
    client, canceler = Client(), Client()
    job = await api.post({"model": "work", "inputs": work(30_000)}, client.headers)
    await api.wait(job.id, "processing")
    await cancel(api, job, canceler)
    await wait_for_tree(collector, client.trace, CANCELED, client.span)
    await check_link(collector, canceler, "SERVER POST /v1/jobs/{job_id}/cancel", job)


async def test_a_job_that_never_began_shows_how_long_it_waited(api: Api, collector: Collector) -> None:
    early, canceler = Client(), Client()
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await api.post(ECHO | {"run_at": tomorrow}, early.headers)
    await cancel(api, job, canceler)
    spans = await wait_for_tree(collector, early.trace, CANCELED_EARLY, early.span)
    assert [span.links for span in spans if span.name == "queued jobs.echo"] == [(canceler.trace,)]
    await check_link(collector, canceler, "SERVER POST /v1/jobs/{job_id}/cancel", job)


async def cancel(api: Api, job: Job, client: Client) -> None:
    read(await api.http.post(f"/v1/jobs/{job.id}/cancel", headers=client.headers), 202, Job)


async def check_link(collector: Collector, client: Client, expected: str, job: Job) -> None:
    """A request that did something to a job points at the job's trace."""
    (span,) = await wait_for_tree(collector, client.trace, expected, client.span)
    assert span.links == (job.trace_id,)


async def test_jobs_of_a_batch_have_traces_of_their_own_that_point_to_it(api: Api, collector: Collector) -> None:
    client = Client()
    items = ECHO, {"model": "work", "inputs": work(1)}  # of one model, each might run by the other's doorbell
    lines = b"".join(msgspec.json.encode(item) + b"\n" for item in items)
    headers = {"content-type": "application/x-ndjson"} | client.headers
    answer = await api.http.post("/v1/batches", content=lines, headers=headers)
    jobs = (await api.http.get("/v1/jobs", params={"batch": answer.json()["id"]})).json()["items"]
    await wait_for_tree(collector, client.trace, BATCH, client.span)
    assert len({job["trace_id"] for job in jobs} | {client.trace}) == 3
    for job in jobs:
        spans = await wait_for_tree(collector, job["trace_id"], OF_A_BATCH.format(model=job["model"]))
        assert [span.links for span in spans if span.parent == ""] == [(client.trace,)]


async def test_a_job_whose_gateway_died_between_commit_and_publish_stays_in_its_trace(
    stack: Stack, api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox, client = receiver.inbox(), Client()
    nowhere = f"amqp://guest:guest@{HOST}:{free_ports(1)[0]}/"
    async with another_gateway(stack, CHARONIA_AMQP_URL=nowhere) as gateway:
        async with open_client(stack, DEVELOPMENT_KEY, gateway.url) as other:
            job = await other.post(ECHO | {"webhook": {"url": inbox.url}}, client.headers)
        await collector.wait(client.trace, {"POST /v1/jobs"})
        await asyncio.to_thread(gateway.kill)
    assert (await api.wait(job.id)).status == "succeeded"
    spans = await wait_for_tree(collector, client.trace, WHOLE, client.span)
    (relayed,) = [span for span in spans if span.name == "send charonia.jobs"]
    assert relayed.service in ("charonia-gateway", "charonia-dispatcher", "charonia-notifier")


async def test_what_a_client_does_not_sample_is_not_exported_but_for_what_fails(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox, client, later = receiver.inbox(500), Client("00"), Client()
    job = await api.post(ECHO | {"webhook": {"url": inbox.url}}, client.headers)
    *_, last = await inbox.wait(2)
    assert last.request.headers["traceparent"].startswith(f"00-{job.trace_id}-")
    assert last.request.headers["traceparent"].endswith("-00")
    await api.wait_for_webhooks(job.id)
    await api.post(ECHO | {"webhook": {"url": inbox.url}}, later.headers)
    await wait_for_tree(collector, later.trace, WHOLE, later.span)  # what was before it has been exported too
    assert draw(collector.trace(client.trace), client.span) == "ORPHAN CLIENT POST webhook ! 500"
    (failed,) = collector.trace(client.trace)
    assert failed.attributes["charonia.job_id"] == job.id
    assert REQUIRED["POST webhook"] <= failed.attributes.keys()


async def test_tritons_own_spans_join_the_trace(api: Api, collector: Collector) -> None:
    jobs = [await api.run("echo", {"x": [[1.0]]}) for _ in range(JOBS)]

    async def look() -> dict[str, Span] | None:
        traces = [{span.name: span for span in collector.trace(job.trace_id)} for job in jobs]
        return next((spans for spans in traces if spans.keys() >= {*TRITON, "infer echo"}), None)

    spans = await eventually(look, "a trace with Triton's spans")
    assert {name: spans[name].parent for name in TRITON} == {name: spans[on].id for name, on in TRITON.items()}


@pytest.fixture
def grpc_collector() -> Iterator[GrpcCollector]:
    collector = GrpcCollector()
    yield collector
    collector.close()


async def test_spans_go_over_grpc_too(stack: Stack, grpc_collector: GrpcCollector) -> None:
    client = Client()
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": grpc_collector.url}
    async with another_gateway(stack, **variables) as gateway, httpx.AsyncClient(base_url=gateway.url) as http:
        headers = client.headers | {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
        read(await http.post("/v1/jobs", json=ECHO, headers=headers), 202, Job)
        own = WHOLE.partition("    INTERNAL")[0]  # what follows is others', who send it over HTTP
        await wait_for_tree(grpc_collector, client.trace, own, client.span)
