"""The trace that an answer names, without tracing."""

import asyncio
from typing import Any

import pytest
from opentelemetry.trace import get_current_span
from prometheus_client import REGISTRY

from common.telemetry import tracing
from services.gateway.http.draining import DrainMiddleware, DrainState
from services.gateway.http.telemetry import UNTRACED, TelemetryMiddleware

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def answer(app: Any, path: str, *headers: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the headers of the answer."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    none: Any = None
    scope: Any = {"type": "http", "method": "GET", "path": path, "headers": headers}
    await TelemetryMiddleware(app)(scope, none, send)
    return dict(sent[0]["headers"])


async def show_trace(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer with the traceparent that a job of this request would have."""
    own = tracing.to_traceparent(get_current_span()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"own", own)]})


@pytest.mark.parametrize("sent", [None, SENT, "00-none", f"00-{'0' * 32}-b7ad6b7169203331-01"])
async def test_the_answer_has_the_trace_of_the_request(sent: str | None) -> None:
    headers = [] if sent is None else [(b"traceparent", sent.encode())]
    answers = [await answer(show_trace, "/v1/jobs", *headers) for _ in range(2)]
    for each in answers:
        assert tracing.parse(each[b"traceresponse"].decode()) is not None
        assert each[b"traceresponse"] == each[b"own"]
    assert (answers[0] == answers[1]) == (sent == SENT)


@pytest.mark.parametrize("path", UNTRACED)
async def test_a_probe_has_no_trace(path: str) -> None:
    assert b"traceresponse" not in await answer(show_trace, path)


async def test_a_request_that_is_given_up_has_a_trace_and_is_counted() -> None:
    state = DrainState()
    state.start()

    async def cancelled(_scope: Any, _receive: Any, _send: Any) -> None:
        raise asyncio.CancelledError

    labels = {"method": "GET", "route": "unmatched", "status": "503"}
    before = REGISTRY.get_sample_value("charonia_http_requests_total", labels) or 0.0
    headers = await answer(DrainMiddleware(cancelled, state), "/v1/jobs")
    assert b"traceresponse" in headers
    assert REGISTRY.get_sample_value("charonia_http_requests_total", labels) == before + 1
