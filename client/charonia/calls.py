"""A call of the API, its deadline and its tries. Pure: the transports do the input and output."""

import functools
import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import httpx
import msgspec

from charonia.contact import Contact, describe_address
from charonia.errors import (
    BY_STATUS,
    APIError,
    CharoniaError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidInput,
    InvalidResponse,
    ServerError,
)
from charonia.openai_schemas import read_openai_error
from charonia.retry import choose_delay, may_repeat_answer, may_repeat_error, read_retry_after, was_never_sent
from charonia.schemas import FieldProblem, Problem

EVENT_STREAM = "text/event-stream"
JOB_HEADER = "X-Charonia-Job"  # of calls that answer with the outputs of a job
TRACE_RESPONSE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-.*")
TAG = re.compile(r"<style.*?</style>|<[^>]*>", re.DOTALL)
IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,255}")
LINES = "application/x-ndjson"
CONNECT_SECONDS = 10.0
TRY_SECONDS = 30.0  # until a try without an answer is given up, besides what the gateway was asked to wait
MAX_WAIT = 60.0  # what a gateway waits at most
GRACE_SECONDS = 2.0  # for the answer of a wait to arrive
NEVER = float("inf")

T = TypeVar("T")
Query = Mapping[str, str | int | float | bool | None]


NO_QUERY: Query = MappingProxyType({})
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Call(NamedTuple):
    """A request. If `repeatable`, it may be sent twice. `wait` is how long the gateway may take, in seconds.

    `content` opens a body that is sent piece by piece. If `is_redirected`, the answer may come from another server.
    """

    method: str
    path: str
    query: Query = NO_QUERY
    body: bytes = b""
    headers: Mapping[str, str] = NO_HEADERS
    repeatable: bool = True
    keyed: bool = False
    wait: float = 0.0
    content: Callable[[], Any] | None = None
    is_redirected: bool = False


def check_timeout(seconds: Any) -> float:
    """Return the seconds. Raise ValueError if they are not a number from 0."""
    if isinstance(seconds, (str, bool)) or not hasattr(seconds, "__float__") or not float(seconds) >= 0:  # or NaN
        raise ValueError(f"timeout must be a number of seconds from 0, not {seconds!r}; pass inf for no limit")
    return float(seconds)


class Deadline:
    """A point in time, some seconds from now. Raise ValueError if they are not a number from 0."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds = check_timeout(seconds)
        self._at = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds until then, at least 0."""
        return max(0.0, self._at - time.monotonic())

    def limit(self, seconds: float) -> float:
        """Return so many seconds, or what is left of them."""
        return min(seconds, self.left)

    def check(self, what: str) -> None:
        """Raise DeadlineExceeded if it is over."""
        if not self.left:
            raise DeadlineExceeded(f"{what} took over {self.seconds:g} s; call with a longer timeout, or again later")

    def renew(self) -> None:
        """Begin anew."""
        self._at = time.monotonic() + self.seconds


def choose_patience(deadline: Deadline, wait: float, timeout: float) -> float:
    """Return how long a call with this wait may take besides it: `timeout`, but little over the deadline."""
    return max(GRACE_SECONDS, min(timeout, deadline.left - wait))


def extend(deadline: Deadline) -> Deadline:
    """Return a deadline that leaves some time to read what is ready, even if the wait for it took all."""
    return deadline if deadline.left >= GRACE_SECONDS else Deadline(GRACE_SECONDS)


def get(path: str, query: Query = NO_QUERY, *, wait: float = 0.0) -> Call:
    """Return a read; with `wait`, the gateway waits for the job to end, at most so many seconds."""
    return Call("GET", path, {**query, "wait": f"{wait:.3f}"} if wait else query, wait=wait)


def post(path: str, body: Any = None) -> Call:
    """Return a call that must not be sent twice."""
    content = b"" if body is None else msgspec.json.encode(body)
    return Call("POST", path, body=content, headers={"Content-Type": "application/json"}, repeatable=False)


def submit(path: str, body: bytes, key: str | None, content_type: str = "application/json") -> Call:
    """Return a call that may be sent twice, because of its Idempotency-Key. Raise InvalidInput for a wrong key."""
    check_key(key)
    headers = {"Content-Type": content_type, "Idempotency-Key": uuid.uuid4().hex if key is None else key}
    return Call("POST", path, body=body, headers=headers, keyed=True)


def check_key(key: str | None) -> None:
    """Raise InvalidInput if the key is given and the gateway would not take it."""
    if key is not None and not (isinstance(key, str) and IDEMPOTENCY_KEY.fullmatch(key)):
        text = "must have 1 to 255 visible ASCII characters; give another key, or None for a new one"
        raise InvalidInput([FieldProblem("idempotency_key", text)])


def add_headers(call: Call, headers: Mapping[str, str], wait: float = 0.0) -> Call:
    return call._replace(headers={**call.headers, **headers}, wait=wait)


def resume_after(last_id: str) -> dict[str, str]:
    """Return the headers that ask for a stream of events after the one with this id."""
    return {"Accept": EVENT_STREAM} | ({"Last-Event-ID": last_id} if last_id else {})


def to_query(query: Query) -> dict[str, str]:
    """Return a query as text, without what is None."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }


def find_traceparent() -> str | None:
    """Return the W3C traceparent of the caller's span, if OpenTelemetry is in use."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}" if span.is_valid else None


class Tries:
    """Counts the tries of one call. After a failure it says how long to wait, or raises the error.

    The deadline includes what the gateway was asked to wait. Tries that do not reach it, and the pauses between tries,
    have only the rest, and `retry_seconds` at most. If `contact` has had no answer yet, they end soon.
    """

    def __init__(
        self,
        call: Call,
        deadline: Deadline,
        contact: Contact,
        traceparent: str | None = None,
        retry_seconds: float = NEVER,
    ) -> None:
        self._call = call
        self._deadline = deadline
        self._contact = contact
        self._retry_seconds = min(retry_seconds, deadline.seconds - call.wait)
        self._began_at = self._next_try_at = time.monotonic()
        self._trace_id = traceparent.split("-")[1] if traceparent else None
        self._count = 0

    @property
    def _left(self) -> float:
        return max(0.0, min(self._deadline.left, self._retry_seconds))

    def limit_times(self) -> httpx.Timeout:
        """Return the timeouts of the next try."""
        answer = min(self._deadline.left, self._call.wait + TRY_SECONDS)
        return httpx.Timeout(max(0.001, answer), connect=max(0.001, min(self._left, CONNECT_SECONDS)))

    def check_answer(self, status: int, headers: httpx.Headers, body: bytes) -> float:
        """Return the seconds to wait after a refusal. Raise the APIError if it must not be repeated."""
        error = make_error(status, headers, body, self._trace_id, self._contact.url)
        may_repeat = may_repeat_answer(status, error.code, repeatable=self._call.repeatable, keyed=self._call.keyed)
        return self._choose_delay(error, error.retry_after, self._left if may_repeat else 0.0)

    def check_error(self, error: httpx.TransportError) -> float:
        """Return the seconds to wait after a broken connection. Raise ConnectionFailed or DeadlineExceeded."""
        shown = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        call = f"{self._call.method} {self._call.path}{describe_address(error)}"
        if was_never_sent(error):
            self._retry_seconds -= time.monotonic() - self._next_try_at
        if self._deadline.left == 0 and not isinstance(error, httpx.ConnectError):  # nobody is there, late or not
            failure: CharoniaError = DeadlineExceeded(f"{call} took over {self._deadline.seconds:g} s ({shown})")
        elif self._call.repeatable or was_never_sent(error):
            failure = ConnectionFailed(
                f"{call}: {shown}. Check that the gateway runs and that the URL is right: CHARONIA_URL, or the profile"
            )
        else:
            failure = ConnectionFailed(f"{call}: {shown}. It may have had its effect; check that before you repeat it")
        failure.__cause__ = error
        left = self._contact.limit(self._left, time.monotonic() - self._began_at, error)
        may_repeat = may_repeat_error(error, repeatable=self._call.repeatable)
        delay = self._choose_delay(failure, None, left if may_repeat else 0.0)
        self._contact.note_retry(error)
        return delay

    def _choose_delay(self, failure: CharoniaError, retry_after: float | None, left: float) -> float:
        self._count += 1
        delay = choose_delay(self._count, retry_after)
        if delay >= left:
            raise failure
        self._retry_seconds -= delay
        self._next_try_at = time.monotonic() + delay
        return delay


def make_error(
    status: int, headers: httpx.Headers, body: bytes, trace_id: str | None, url: str = "the URL"
) -> APIError:
    """Return the error that an answer is. `trace_id` is the caller's, for an answer that has none."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        problem = Problem()
    if not problem.code:
        problem = read_openai_error(body) or problem
    if not problem.code:
        text = " ".join(TAG.sub(" ", body[:1000].decode(errors="replace")).split())[:100] or "nothing"
        text = f"{url} is not a Charonia gateway, or a proxy before it answers: {text}"
        problem = Problem(detail=f"{text}. Check the URL: CHARONIA_URL, or the profile")
    kind = BY_STATUS.get(status, ServerError if status >= 500 else APIError)
    retry_after = read_retry_after(headers)
    trace_id = read_trace_id(headers) or trace_id
    error = kind(status, problem.code, problem.detail.rstrip("."), problem.errors, retry_after, trace_id)
    error.job_id = headers.get(JOB_HEADER)
    return error


def read_trace_id(headers: httpx.Headers) -> str | None:
    """Return the trace of an answer, or None if it is not of a gateway."""
    found = TRACE_RESPONSE.fullmatch(headers.get("traceresponse", ""))
    return found.group(1) if found else None


def check_success(status: int, headers: httpx.Headers) -> None:
    """Raise InvalidResponse for a redirect."""
    if status >= 300:
        target = headers.get("location", "elsewhere")
        raise InvalidResponse(
            f"the gateway redirects to {target}; is the URL right? Set CHARONIA_URL to where it leads"
        )


def decode(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Return the body of an answer. Raise InvalidResponse if it is not what the API promises."""
    try:
        found: T = _decoder(kind).decode(body)  # type: ignore[arg-type]
        return found
    except msgspec.DecodeError as error:
        raise InvalidResponse(f"not an answer of Charonia: {error}; check the URL, and the version") from error


@functools.lru_cache(maxsize=64)
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind)


class LineSplitter:
    """Splits chunks of bytes into lines. `str.splitlines` also splits at characters that JSON may contain."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes, without their ends."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        lines = []
        for other in others:
            lines.append(b"".join(self._parts).removesuffix(b"\r"))
            self._parts = [other]
        return lines
