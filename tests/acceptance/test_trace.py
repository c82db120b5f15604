"""One job is one trace, from the client's request to the receiver's webhook."""

import secrets

from tests.acceptance.client import Api
from tests.acceptance.collector import Collector, Kind, Span
from tests.acceptance.receiver import Receiver
from tests.acceptance.waiting import eventually

# Each of our spans with its kind and the span it hangs on; the root hangs on the client's, if there is one.
TREE = {
    "POST /v1/jobs": (Kind.SERVER, None),
    "send charonia.jobs": (Kind.PRODUCER, "POST /v1/jobs"),
    "process jobs.echo": (Kind.CONSUMER, "send charonia.jobs"),
    "infer echo": (Kind.CLIENT, "process jobs.echo"),
    "send charonia.events": (Kind.PRODUCER, "process jobs.echo"),
    "process notifier.events": (Kind.CONSUMER, "send charonia.events"),
    "POST webhook": (Kind.CLIENT, "process notifier.events"),
}
# What Triton adds. It overlooks up to a tenth of all requests, so one of several has to show it.
TRITON = {"InferRequest": "infer echo", "echo": "InferRequest", "compute": "echo"}
JOBS = 5


async def test_a_job_is_one_trace_from_the_client_to_the_receiver(
    api: Api, receiver: Receiver, collector: Collector
) -> None:
    inbox = receiver.inbox()
    trace, client = secrets.token_hex(16), secrets.token_hex(8)
    request = {"model": "echo", "inputs": {"x": [[1.0]]}, "webhook": {"url": inbox.url}}
    job = await api.post(request, {"traceparent": f"00-{trace}-{client}-01"})
    assert job.trace_id == trace
    (delivery,) = await inbox.wait()

    spans = by_name(await collector.wait(trace, set(TREE)))
    assert_tree(spans, client)
    assert delivery.request.headers["traceparent"] == f"00-{trace}-{spans['POST webhook'].id}-01"


async def test_a_job_without_a_traceparent_starts_a_trace(api: Api, receiver: Receiver, collector: Collector) -> None:
    job = await api.submit("echo", {"x": [[1.0]]}, webhook={"url": receiver.inbox().url})
    assert_tree(by_name(await collector.wait(job.trace_id, set(TREE))), "")


async def test_tritons_own_spans_join_the_trace(api: Api, collector: Collector) -> None:
    jobs = [await api.run("echo", {"x": [[1.0]]}) for _ in range(JOBS)]

    async def look() -> dict[str, Span] | None:
        traces = [by_name(collector.trace(job.trace_id)) for job in jobs]
        return next((spans for spans in traces if spans.keys() >= {*TRITON, "infer echo"}), None)

    spans = await eventually(look, "a trace with Triton's spans")
    assert {name: spans[name].parent for name in TRITON} == {name: spans[on].id for name, on in TRITON.items()}


def by_name(spans: list[Span]) -> dict[str, Span]:
    """Fails where there are two of one name."""
    found = {span.name: span for span in spans}
    assert len(found) == len(spans)
    return found


def assert_tree(spans: dict[str, Span], root: str) -> None:
    expected = {name: (kind, root if on is None else spans[on].id) for name, (kind, on) in TREE.items()}
    assert {name: (spans[name].kind, spans[name].parent) for name in TREE} == expected
