"""Which calls are repeated, when, and what their errors say."""

from datetime import datetime, timezone
from typing import Any

import httpx
import msgspec
import pytest
from charonia import errors
from charonia.calls import Call, Deadline, LineSplitter, Tries, check_success, decode, make_error, submit
from charonia.contact import FIRST_SECONDS, Contact
from charonia.retry import choose_delay, may_repeat_answer, may_repeat_error, read_retry_after
from charonia.schemas import BatchLine
from charonia.sse import Parser, ServerSentEvent

READ = httpx.ReadError("broken")
CONNECT = httpx.ConnectError("refused")
KNOWN = Contact()  # of an address that has answered
KNOWN.note_answer()
PROBLEM = b'{"type": "urn:charonia:problem:%b", "detail": "why", "errors": [{"pointer": "/x", "detail": "bad"}]}'


@pytest.mark.parametrize(
    ("status", "code", "repeatable", "keyed", "expected"),
    [
        (429, "rate_limited", False, False, True),
        (503, "unavailable", True, False, True),
        (503, "unavailable", False, False, False),  # its outcome is unknown
        (503, "overloaded", False, False, True),
        (503, "", False, False, False),  # of a proxy
        (502, "", True, False, True),
        (502, "", False, False, False),
        (409, "request_in_progress", True, True, True),  # the first call with the key is under way
        (409, "request_in_progress", True, False, False),
        (409, "conflict", True, True, False),
        (409, "model_not_loaded", True, True, False),
        (422, "invalid_request", True, True, False),
        (500, "internal", True, True, False),
    ],
)
def test_only_what_has_no_double_effect_is_repeated(
    status: int, code: str, repeatable: bool, keyed: bool, expected: bool
) -> None:
    assert may_repeat_answer(status, code, repeatable=repeatable, keyed=keyed) is expected


def test_a_call_that_was_never_sent_is_always_repeated() -> None:
    assert may_repeat_error(CONNECT, repeatable=False)
    assert may_repeat_error(READ, repeatable=True)
    assert not may_repeat_error(READ, repeatable=False)
    assert not may_repeat_error(httpx.UnsupportedProtocol("x"), repeatable=True)


def test_delays_grow_and_never_undercut_retry_after() -> None:
    assert [round(choose_delay(tries, None, lambda: 1.0), 1) for tries in (1, 2, 3, 6, 99)] == [0.2, 0.4, 0.8, 6.4, 8.0]
    assert choose_delay(1, None, lambda: 0.0) == 0.1
    assert (choose_delay(9, 5.0, lambda: 0.0), choose_delay(1, 4.0, lambda: 1.0)) == (5.0, 5.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7", 7.0), ("", None), ("x", None), ("-1", None), ("Sun, 22 Nov 2026 17:00:30 GMT", 30.0)],
)
def test_retry_after_is_seconds_or_a_date(text: str, expected: float | None) -> None:
    now = datetime(2026, 11, 22, 17, 0, 0, tzinfo=timezone.utc)  # noqa: UP017
    assert read_retry_after({"retry-after": text}, lambda: now) == expected


def test_a_retry_that_would_come_too_late_is_not_awaited() -> None:
    tries = Tries(Call("GET", "/v1/models"), Deadline(10), KNOWN)
    assert tries.check_answer(503, httpx.Headers({"Retry-After": "5"}), PROBLEM % b"unavailable") >= 5
    with pytest.raises(errors.Unavailable, match=r"503 unavailable: why\. Call later") as caught:
        tries.check_answer(503, httpx.Headers({"Retry-After": "60"}), PROBLEM % b"unavailable")
    assert caught.value.retry_after == 60


def test_a_wait_that_broke_is_not_repeated_for_as_long_as_it_might_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("charonia.calls.time.monotonic", lambda: now)
    tries = Tries(Call("POST", "/v1/jobs", wait=60), Deadline(65), KNOWN)
    now += 2
    now += tries.check_error(READ)
    assert tries.limit_times().read == pytest.approx(165 - now)
    now += 30  # the gateway came back, waited, and went away again
    broke_at = now
    now += tries.check_error(READ)
    while now < broke_at + 8:
        try:
            now += 0.1 + tries.check_error(CONNECT)
        except errors.ConnectionFailed:
            break
    assert 1 < now - broke_at < 5.2
    connect = tries.limit_times().connect
    assert connect is not None
    assert connect < 5


@pytest.mark.parametrize(("has_answered", "seconds"), [(False, FIRST_SECONDS), (True, 60)])
def test_an_address_that_never_answered_is_soon_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_answered: bool, seconds: float
) -> None:
    now = 0.0
    monkeypatch.setattr("charonia.calls.time.monotonic", lambda: now)
    contact = Contact()
    if has_answered:
        contact.note_answer()
    error = httpx.ConnectError("refused", request=httpx.Request("GET", "http://localhost:1/v1/jobs?key=secret"))
    tries = Tries(Call("GET", "/v1/jobs"), Deadline(60), contact)
    failure = None
    while failure is None:
        try:
            now += tries.check_error(error)
        except errors.ConnectionFailed as found:
            failure = str(found)
    assert "GET /v1/jobs to http://localhost:1: ConnectError: refused. " in failure
    assert "the URL is right: CHARONIA_URL, or the profile" in failure
    assert (now <= seconds, now > FIRST_SECONDS) == (True, has_answered)
    assert caplog.messages == ["cannot connect to http://localhost:1 (refused); retrying"]


def test_a_timeout_without_a_text_is_named(caplog: pytest.LogCaptureFixture) -> None:
    Contact().note_retry(httpx.ConnectTimeout(""))
    assert caplog.messages == ["cannot connect (ConnectTimeout); retrying"]


def test_a_gateway_that_answers_late_has_all_the_time_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("charonia.calls.time.monotonic", lambda: now)
    contact = Contact()
    tries = Tries(Call("GET", "/v1/jobs"), Deadline(60), contact)
    now += tries.check_error(CONNECT)
    contact.note_answer()
    assert tries.check_answer(503, httpx.Headers({"Retry-After": "20"}), PROBLEM % b"unavailable") >= 20


def test_an_error_says_whether_the_call_may_have_had_an_effect() -> None:
    once = Tries(Call("POST", "/v1/webhooks", repeatable=False), Deadline(10), KNOWN)
    with pytest.raises(errors.ConnectionFailed, match="It may have had its effect") as caught:
        once.check_error(READ)
    assert caught.value.__cause__ is READ
    assert once.check_error(CONNECT) < 1
    with pytest.raises(errors.ConnectionFailed, match="Check that the gateway runs"):
        Tries(Call("POST", "/v1/webhooks", repeatable=False), Deadline(0), KNOWN).check_error(CONNECT)
    with pytest.raises(errors.DeadlineExceeded, match=r"GET /x took over 0 s \(ReadError: broken\)"):
        Tries(Call("GET", "/x"), Deadline(0), KNOWN).check_error(READ)
    with pytest.raises(errors.ConnectionFailed, match="Check that the gateway runs"):
        Tries(Call("GET", "/x"), Deadline(0), KNOWN).check_error(CONNECT)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (413, errors.TooLarge),
        (422, errors.InvalidRequest),
        (429, errors.RateLimited),
        (503, errors.Unavailable),
        (500, errors.ServerError),
        (418, errors.APIError),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[errors.APIError]) -> None:
    found = make_error(status, httpx.Headers(), PROBLEM % b"some_code", "abc")
    assert type(found) is kind
    assert (found.status, found.code, found.detail, found.trace_id) == (status, "some_code", "why", "abc")
    assert [str(each) for each in found.errors] == ["/x: bad"]
    assert found.hint in str(found)


TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    ("header", "own", "expected"),
    [
        (f"00-{TRACE}-b7ad6b7169203331-01", None, TRACE),
        (f"00-{TRACE}-b7ad6b7169203331-01", "abc", TRACE),
        ("", "abc", "abc"),
        ("none", None, None),
        (f"00-{TRACE[1:]}-b7ad6b7169203331-01", "abc", "abc"),
    ],
)
def test_an_error_has_the_trace_of_the_answer(header: str, own: str | None, expected: str | None) -> None:
    headers = httpx.Headers({"traceresponse": header} if header else {})
    assert make_error(404, headers, PROBLEM % b"not_found", own).trace_id == expected


def test_an_answer_of_something_else_is_explained() -> None:
    page = b"<!DOCTYPE HTML>\n<html><style>p { margin: 0 }</style>\n<h1>Bad gateway</h1>"
    for body, text in ((page, "Bad gateway"), (b'{"detail": "no"}', '{"detail": "no"}'), (b"", "nothing")):
        found = make_error(502, httpx.Headers(), body, None, "http://other")
        assert (found.code, found.detail) == (
            "",
            f"http://other is not a Charonia gateway, or a proxy before it answers: {text}. "
            "Check the URL: CHARONIA_URL, or the profile",
        )
        assert str(found) == f"502: {found.detail}"
    with pytest.raises(errors.InvalidResponse, match="redirects to https://other"):
        check_success(301, httpx.Headers({"location": "https://other"}))
    with pytest.raises(errors.InvalidResponse, match="check the URL"):
        decode(b"<html>", BatchLine)


def test_each_submit_has_a_key_of_its_own() -> None:
    first, second = submit("/v1/jobs", b"", None), submit("/v1/jobs", b"", None)
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]
    assert submit("/v1/jobs", b"", "mine").headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize("key", ["", "größe", "two words", "line\n", "x" * 256, 7])
def test_a_wrong_idempotency_key_is_refused(key: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="idempotency_key: must have 1 to 255 visible ASCII characters"):
        submit("/v1/jobs", b"", key)


def test_lines_are_split_only_at_newlines() -> None:
    lines = LineSplitter()
    text = msgspec.json.encode("a\u2028b\x85c")
    assert [line for byte in text + b"\r\nx\ny" for line in lines.feed(bytes([byte]))] == [text, b"x"]


def test_a_stream_of_events_is_parsed() -> None:
    parser = Parser()
    stream = [
        ":",
        "retry: 1500",
        "id: 1.0",
        "event: job.started",
        "data: {}",
        "",
        ":",
        "id: 1.1",
        "data:x",
        "data: y",
        "",
    ]
    found = [event for line in [*stream, ""] if (event := parser.feed(line))]
    assert found == [ServerSentEvent("1.0", "{}"), ServerSentEvent("1.1", "x\ny")]
    assert parser.retry == 1.5
