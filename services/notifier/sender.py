"""One attempt to deliver: sign, send, read what comes back, within one deadline."""

import asyncio
import time
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import aiohttp
import httpx
import msgspec
from cryptography.fernet import InvalidToken
from httpx_aiohttp import AiohttpTransport
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from common import ids, signing, tracing
from common.addresses import Policy, check_host, check_url
from common.sealing import Sealer
from services.notifier import faults, headers
from services.notifier.network import open_session
from services.notifier.outcome import Fault, Outcome
from services.notifier.store import Claim

CONNECT_SHARE = 2 / 3  # of the deadline, so that a connection that never comes is told from an answer that never does
READ_BYTES = 64 * 1024
KEPT_BYTES = 16 * 1024

head_decoder = msgspec.json.Decoder(dict[str, str])


class Sender:
    """Sends over connections that stay open between deliveries."""

    def __init__(
        self, session: aiohttp.ClientSession, sealer: Sealer, policy: Policy, timeout: float, proxy: str = ""
    ) -> None:
        """`timeout` is the deadline of an attempt, in seconds: look-up, connection, sending and reading; `proxy` is the
        URL that the session's connections go to, where there is one."""
        self.sealer = sealer
        self.policy = policy
        self.timeout = timeout
        self.proxied = bool(proxy)
        connect = timeout * CONNECT_SHARE
        self.client = httpx.AsyncClient(
            transport=AiohttpTransport(client=session, proxy=httpx.Proxy(proxy) if proxy else None),
            timeout=httpx.Timeout(None, connect=connect, pool=connect),
            follow_redirects=False,
            trust_env=False,
            # httpx would keep receivers' cookies and send them to others of the same domain.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    @classmethod
    def open(cls, sealer: Sealer, policy: Policy, *, timeout: float, concurrency: int, proxy: str = "") -> "Sender":
        return cls(open_session(policy, concurrency, proxied=bool(proxy)), sealer, policy, timeout, proxy)

    async def close(self) -> None:
        await self.client.aclose()

    async def send(self, claim: Claim) -> Outcome:
        """Never raises for what a receiver, the network or an unreadable secret does."""
        start = time.perf_counter()
        context = tracing.context_of(claim.traceparent)
        attributes = describe(claim.url)
        with tracing.tracer.start_as_current_span("POST webhook", context, SpanKind.CLIENT, attributes) as span:
            outcome = await self.attempt(claim, tracing.show(span))
            finish(span, outcome)
        return msgspec.structs.replace(outcome, seconds=time.perf_counter() - start)

    async def attempt(self, claim: Claim, traceparent: str) -> Outcome:
        try:
            own = self.write_headers(claim, traceparent)
        except (InvalidToken, ValueError, msgspec.DecodeError):
            return Outcome(fault=Fault.SECRET_UNREADABLE, ours=True)
        try:
            check_url(claim.url, self.policy)
            request = self.client.build_request("POST", claim.url, content=claim.body, headers=own)
        except faults.EXPECTED as error:
            return fail(error)
        return await self.exchange(request)

    def write_headers(self, claim: Claim, traceparent: str) -> dict[str, str]:
        secrets = [self.sealer.open(secret).decode() for secret in claim.secrets]
        custom = {} if claim.headers is None else head_decoder.decode(self.sealer.open(claim.headers))
        message_id, timestamp = ids.show(ids.Kind.DELIVERY, claim.id), int(time.time())
        return headers.compose(
            custom,
            message_id=message_id,
            timestamp=timestamp,
            signature=signing.sign(secrets, message_id, timestamp, claim.body),
            traceparent=traceparent,
        )

    async def exchange(self, request: httpx.Request) -> Outcome:
        """Sends and reads; what came before a failure is kept."""
        status_code, received = None, bytearray()
        try:
            async with asyncio.timeout(self.timeout):
                if self.proxied:  # the proxy makes the connection: this is the last that we see of the address
                    await check_host(str(request.url), self.policy)
                response = await self.client.send(request, stream=True)
                status_code = response.status_code
                try:
                    whole = await read(response, received)
                finally:
                    await response.aclose()
        except faults.EXPECTED as error:
            failed = fail(error)
            return msgspec.structs.replace(failed, status_code=status_code, response=bytes(received[:KEPT_BYTES]))
        return judge(response, received, whole)


async def read(response: httpx.Response, received: bytearray) -> bool:
    """Collects the body, undecoded; whether that was all of it."""
    async for chunk in response.aiter_raw():
        received += chunk
        if len(received) > READ_BYTES:
            return False
    return True


def judge(response: httpx.Response, received: bytearray, whole: bool) -> Outcome:
    """Only 2xx with a body within bounds is success; elsewhere the status says more than the size."""
    fault = None
    if not 200 <= response.status_code < 300:
        fault = Fault.HTTP_STATUS
    elif not whole:
        fault = Fault.RESPONSE_TOO_LARGE
    return Outcome(
        status_code=response.status_code,
        fault=fault,
        retry_after=response.headers.get("retry-after"),
        response=bytes(received[:KEPT_BYTES]),
    )


def fail(error: Exception) -> Outcome:
    fault, ours = faults.name_fault(error)
    return Outcome(fault=fault, ours=ours)


def describe(url: str) -> dict[str, str | int]:
    """The span's attributes; a query may be secret, so it stays out."""
    attributes: dict[str, str | int] = {"http.request.method": "POST"}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return attributes
    full = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return attributes | {"server.address": host, "server.port": port, "url.full": full}


def finish(span: Span, outcome: Outcome) -> None:
    if outcome.status_code is not None:
        span.set_attribute("http.response.status_code", outcome.status_code)
    if outcome.fault is not None:
        # The convention wants the status code as the type where there is one.
        by_status = outcome.fault is Fault.HTTP_STATUS
        span.set_attribute("error.type", str(outcome.status_code if by_status else outcome.fault))
        span.set_status(Status(StatusCode.ERROR, outcome.fault))
