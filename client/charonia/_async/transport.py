"""Sends calls, and repeats them until their deadline."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import httpx
import msgspec

from charonia._async.blocking import sleep
from charonia.calls import (
    NEVER,
    Call,
    Deadline,
    LineSplitter,
    T,
    Tries,
    add_headers,
    check_success,
    decode,
    find_traceparent,
    get,
    resume_after,
    to_query,
)
from charonia.contact import Contact
from charonia.errors import ConfigurationError, KnownJob
from charonia.events import Event, is_end, is_of, parse_streamed
from charonia.retry import choose_delay
from charonia.schemas import ApiObject
from charonia.sse import Parser, ServerSentEvent

NO_CONTENT = 204


class AsyncTransport:
    """Sends calls over one pool of connections. `timeout` is the deadline of a call with its retries, in seconds."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float, http: httpx.AsyncClient | None) -> None:
        self.timeout = timeout
        self.keeps_json = False  # of each answer
        self._url = url
        self._headers = headers
        self._owns_http = http is None
        self._http = http or make_pool()
        self._process = os.getpid()
        self._contact = Contact(url)

    async def aclose(self) -> None:
        """Close the connections, unless the caller brought the pool."""
        if self._owns_http:
            await self._http.aclose()

    async def call(self, call: Call, kind: type[T], timeout: float | None = None) -> T:
        """Return the decoded answer. Raise APIError, ConnectionFailed, DeadlineExceeded or InvalidResponse."""
        return self.decode(await self.send(call, timeout), kind)

    def decode(self, body: bytes | msgspec.Raw, kind: type[T]) -> T:
        """Return the decoded answer, or a part of it. Raise InvalidResponse."""
        found = decode(body, kind)
        if self.keeps_json and isinstance(found, ApiObject):
            found._keep(bytes(body))
        return found

    async def send(self, call: Call, timeout: float | None = None, retry_seconds: float = NEVER) -> bytes:
        """Return the body of the answer. Raises as `call` does.

        Tries that reach nobody, and the pauses between tries, take at most `retry_seconds`.
        """
        deadline = Deadline(call.wait + (self.timeout if timeout is None else timeout))
        traceparent = find_traceparent()
        tries = Tries(call, deadline, self._contact, traceparent, retry_seconds)
        while True:
            try:
                response = await self._start(call, tries, traceparent)
                body = await read_body(response, call, deadline)
            except httpx.TransportError as error:
                delay = tries.check_error(error)
            else:
                if response.status_code < 400:
                    check_success(response.status_code, response.headers)
                    return body
                delay = tries.check_answer(response.status_code, response.headers, body)
            await sleep(delay)

    @asynccontextmanager
    async def open(self, call: Call, until: Deadline | None = None) -> AsyncGenerator[httpx.Response, None]:
        """Open the answer to a call as a stream. Until it begins, it raises as `call` does.

        Neither that nor a read of the stream takes much longer than `until`.
        """
        timeout = call.wait + self.timeout
        deadline = Deadline(timeout if until is None else until.limit(timeout))
        traceparent = find_traceparent()
        tries = Tries(call, deadline, self._contact, traceparent)
        while True:
            try:
                response = await self._start(call, tries, traceparent)
                if response.status_code < 400:
                    break
                body = await read_body(response, call, deadline)
            except httpx.TransportError as error:
                delay = tries.check_error(error)
            else:
                delay = tries.check_answer(response.status_code, response.headers, body)
            await sleep(delay)
        try:
            check_success(response.status_code, response.headers)
            yield response
        finally:
            await response.aclose()

    async def _start(self, call: Call, tries: Tries, traceparent: str | None) -> httpx.Response:
        """Send the call once, and return the answer when its head has arrived."""
        if self._owns_http and self._process != os.getpid():  # forked: the connections are those of the parent
            self._http, self._process = make_pool(), os.getpid()
        headers = {**self._headers, **call.headers}
        if traceparent:
            headers["traceparent"] = traceparent
        request = self._http.build_request(
            call.method,
            self._url + call.path,
            params=to_query(call.query) or None,
            content=call.content() if call.content else call.body or None,
            headers=headers,
            timeout=tries.limit_times(),
        )
        response = await self._http.send(request, stream=True)
        self._contact.note_answer()
        return await self._redirect(call, response, tries) if call.is_redirected and response.is_redirect else response

    async def _redirect(self, call: Call, response: httpx.Response, tries: Tries) -> httpx.Response:
        """Return the answer of the object store, which must not see the key. A refusal is a broken connection."""
        await response.aclose()
        target, timeout = response.headers["location"], tries.limit_times()
        request = self._http.build_request("GET", target, headers=call.headers, timeout=timeout)
        found = await self._http.send(request, stream=True)
        if found.status_code >= 300:
            await found.aclose()
            raise httpx.ReadError(f"the object store answers {found.status_code}", request=request)
        return found

    async def read_lines(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Yield the complete lines of an answer. Ends early, without an error, if the connection breaks."""
        async with self.open(call) as response:
            lines = LineSplitter()
            try:
                async for chunk in response.aiter_bytes():
                    for line in lines.feed(chunk):
                        yield line
            except httpx.TransportError:
                return

    async def follow(
        self, call: Call, deadline: Deadline, job: KnownJob, last_id: str = ""
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a job's stream until the job ends, and reconnect after the last one whenever it breaks.

        `call` is the first one: a GET of the stream, or a submit, whose answer names the job. Raise DeadlineExceeded
        at the deadline, or, if the stream was opened long before, at the gateway's next keep-alive.
        """
        has_ended, failures = False, 0
        while True:
            parser = Parser()
            async with self.open(add_headers(call, resume_after(last_id)), deadline) as response:
                if response.status_code == NO_CONTENT:
                    return
                if location := response.headers.get("location"):
                    job.job_id = location.rpartition("/")[2]
                    call = get(f"/v1/jobs/{job.job_id}/events")
                async for found in read_events(response, parser):
                    if found is not None:
                        event = parse_streamed(found.id, found.data)
                        last_id, failures = found.id, 0
                        if is_of(event, job.job_id):
                            has_ended = is_end(event)
                        yield event
                    deadline.check("the events")
            if has_ended:
                return
            deadline.check("the events")
            failures += 1
            await sleep(deadline.limit(choose_delay(failures, parser.retry)))


def make_pool() -> httpx.AsyncClient:
    """Return a pool of connections. Raise ConfigurationError if the environment does not allow it."""
    try:
        return httpx.AsyncClient(limits=httpx.Limits(max_connections=1000, max_keepalive_connections=100))
    except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
        raise ConfigurationError(
            f"a proxy or the certificates that the environment names cannot be used: {error}; "
            "correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE or SSL_CERT_DIR"
        ) from error


async def read_events(response: httpx.Response, parser: Parser) -> AsyncGenerator[ServerSentEvent | None, None]:
    """Yield the events of a stream until it ends or breaks. Yield None after each chunk, such as a keep-alive."""
    lines = LineSplitter()
    with suppress(httpx.TransportError):
        async for chunk in response.aiter_bytes():
            for line in lines.feed(chunk):
                if found := parser.feed(line.decode()):
                    yield found
            yield None


async def read_body(response: httpx.Response, call: Call, deadline: Deadline) -> bytes:
    """Return the body. Raise DeadlineExceeded at the deadline, however slowly the bytes come."""
    try:
        chunks = []
        async for chunk in response.aiter_bytes():
            chunks.append(chunk)
            deadline.check(f"{call.method} {call.path}")
        return b"".join(chunks)
    finally:
        await response.aclose()
