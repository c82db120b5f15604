"""The trace of a job: from the submit to the webhook, without any collector of spans."""

from datetime import UTC, datetime, timedelta

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Strict
from tests.support.api.model_inputs import fault, picture
from tests.support.receivers.webhook_receiver import Receiver

TEXT = {"Accept": "text/plain"}
ROUNDING = 0.51  # milliseconds: a span shows tenths of one, a metric whole ones


class Span(Strict, frozen=True):
    name: str
    service: str
    depth: int
    at_ms: float
    took_ms: float | None
    started_at: datetime
    finished_at: datetime | None
    failed: bool
    detail: str | None


class Trace(Strict, frozen=True):
    job_id: str
    trace_id: str
    status: str
    spans: list[Span]
    truncated: bool


async def get_trace(api: Api, job: str) -> Trace:
    return read(await api.http.get(f"/v1/jobs/{job}/trace"), 200, Trace)


async def test_a_job_is_traced_up_to_its_webhook(api: Api, own_receiver: Receiver) -> None:
    inbox = own_receiver.inbox(503)
    job = await api.submit("ocr", picture(), webhook={"url": inbox.url})
    await api.wait(job.id)
    ended = await api.wait_for_webhooks(job.id)
    trace = await get_trace(api, job.id)
    assert (trace.job_id, trace.trace_id, trace.status, trace.truncated) == (job.id, job.trace_id, "succeeded", False)
    origin = "/".join(inbox.url.split("/")[:3])
    assert [(span.depth, span.service, span.name) for span in trace.spans] == [
        (0, "gateway", "job ocr"),
        (1, "gateway", "accepted"),
        (1, "dispatcher", "queued"),
        (1, "dispatcher", "attempt 1"),
        (2, "triton", "infer ocr"),
        (1, "notifier", "deliver job.succeeded"),
        (2, "notifier", f"POST {origin}"),
        (2, "notifier", f"POST {origin}"),
    ]
    assert [span.failed for span in trace.spans] == [False] * 6 + [True, False]
    assert [span.detail for span in trace.spans[-2:]] == ["503, http_status", "204"]
    assert all(span.took_ms is not None for span in trace.spans)
    whole, inference = trace.spans[0], trace.spans[4]
    for span, milliseconds in (whole, ended.metrics.total_ms), (inference, ended.metrics.inference_ms):
        assert abs((span.took_ms or 0) - (milliseconds or 0)) <= ROUNDING


async def test_the_trace_as_text(api: Api) -> None:
    job = await api.run("faulty", fault("raise"), retry={"max_attempts": 2, "initial_delay": 0})
    response = await api.http.get(f"/v1/jobs/{job.id}/trace", headers=TEXT)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    head, _, columns, *lines = response.text.splitlines()
    assert head == f"Trace {job.trace_id} of {job.id}: failed"
    assert columns.split() == ["at", "took", "service", "span"]
    attempts = [line.partition("dispatcher    ")[2] for line in lines if "attempt" in line]
    assert [text.partition(", ")[0] for text in attempts] == [
        "attempt 1 (failed: inference_failed",
        "attempt 2 (failed: inference_failed",
    ]


async def test_a_waiting_job_has_an_open_span(api: Api) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    job = await api.submit("echo", {"x": [[1.0]]}, run_at=at.isoformat())
    trace = await get_trace(api, job.id)
    assert [(span.name, span.took_ms is None) for span in trace.spans] == [
        ("job echo", True),
        ("accepted", False),
        ("scheduled", True),
    ]
    await api.http.post(f"/v1/jobs/{job.id}/cancel")
    ended = (await get_trace(api, job.id)).spans
    assert [(span.name, span.took_ms is None) for span in ended] == [
        ("job echo", False),
        ("accepted", False),
        ("scheduled", False),
    ]


async def test_the_trace_of_another_tenant_is_not_found(api: Api, other_tenant: Api) -> None:
    job = await api.run("echo", {"x": [[1.0]]})
    assert (await other_tenant.http.get(f"/v1/jobs/{job.id}/trace")).status_code == 404
    assert (await api.http.get("/v1/jobs/none/trace")).status_code == 404
