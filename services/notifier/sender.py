"""One attempt to deliver: sign, send, read what comes back, within one deadline."""

import asyncio
import time
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp
import httpx
import msgspec
from cryptography.fernet import InvalidToken
from httpx_aiohttp import AiohttpTransport
from opentelemetry.trace import Span, SpanKind

from common import ids, signing, tracing
from common.addresses import Policy, check_url
from common.sealing import Sealer
from services.notifier import faults, headers
from services.notifier.network import CheckedResolver, open_session
from services.notifier.outcome import Fault, Outcome
from services.notifier.store import Claim
from services.notifier.transport import DirectTransport

CONNECT_SHARE = 2 / 3  # of the deadline, so that a connection that never comes is told from an answer that never does
PROXY_SHARE = 1 / 3  # so that a proxy that is away is told from what is behind it
READ_BYTES = 64 * 1024
KEPT_BYTES = 16 * 1024
REMEMBERED = 10_000  # URLs and secrets

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
        self.resolver = CheckedResolver(policy)
        # Without a client around it: there are no redirects, cookies or variables of the environment to turn off, and
        # each delivery costs half.
        self.transport = (
            AiohttpTransport(client=session, proxy=httpx.Proxy(proxy))
            if proxy
            else DirectTransport(session, timeout * CONNECT_SHARE)
        )
        self.extensions = {
            "timeout": httpx.Timeout(None, connect=timeout * PROXY_SHARE, pool=timeout * CONNECT_SHARE).as_dict()
        }
        # A receiver gets many: its URL is checked and parsed, and its secret opened, once.
        self.aim = lru_cache(REMEMBERED)(self.aim_at)
        self.open_secret = lru_cache(REMEMBERED)(self.unseal)

    @classmethod
    def open(cls, sealer: Sealer, policy: Policy, *, timeout: float, concurrency: int, proxy: str = "") -> "Sender":
        return cls(open_session(policy, concurrency, proxied=bool(proxy)), sealer, policy, timeout, proxy)

    async def close(self) -> None:
        await self.transport.aclose()

    async def send(self, claim: Claim) -> Outcome:
        """Never raises for what a receiver, the network or an unreadable secret does."""
        start = time.perf_counter()
        context = tracing.context_of(claim.traceparent)
        with tracing.begin("POST webhook", context, SpanKind.CLIENT) as span:
            if span.is_recording():
                span.set_attributes(describe(claim.url) | identify(claim))
            outcome = await self.attempt(claim, tracing.show(span))
            finish(span, outcome)
        return msgspec.structs.replace(outcome, seconds=time.perf_counter() - start)

    async def attempt(self, claim: Claim, traceparent: str) -> Outcome:
        try:
            own = self.write_headers(claim, traceparent)
        except (InvalidToken, ValueError, msgspec.DecodeError):
            return Outcome(fault=Fault.SECRET_UNREADABLE, ours=True)
        try:
            request = self.build(self.aim(claim.url), claim.body, own)
        except faults.EXPECTED as error:
            return fail(error)
        return await self.exchange(request)

    def aim_at(self, url: str) -> httpx.URL:
        """Raises AddressRefused where the URL itself says that it may not be used."""
        check_url(url, self.policy)
        return httpx.URL(url)

    def unseal(self, secret: bytes) -> str:
        return self.sealer.open(secret).decode()

    def build(self, url: httpx.URL, body: bytes, own: Mapping[str, str]) -> httpx.Request:
        """With a body that is read already; aiohttp adds its length."""
        own = {**own, "host": url.netloc.decode()}
        request = httpx.Request("POST", url, stream=httpx.ByteStream(body), headers=own, extensions=self.extensions)
        request.read()
        return request

    def write_headers(self, claim: Claim, traceparent: str) -> dict[str, str]:
        secrets = [self.open_secret(secret) for secret in claim.secrets]
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
        status_code, retry_after, received = None, None, bytearray()
        try:
            async with asyncio.timeout(self.timeout):
                if self.proxied:  # the proxy makes the connection: this is the last that we see of the address
                    await self.resolver.resolve(request.url.raw_host.decode())  # the very name that the proxy is told
                response = await self.transport.handle_async_request(request)
                status_code, retry_after = response.status_code, response.headers.get("retry-after")
                try:
                    whole = await read(response, received)
                finally:
                    await response.aclose()
        except faults.EXPECTED as error:
            failed, kept = fail(error), bytes(received[:KEPT_BYTES])
            return msgspec.structs.replace(failed, status_code=status_code, retry_after=retry_after, response=kept)
        return judge(status_code, retry_after, received, whole)


async def read(response: httpx.Response, received: bytearray) -> bool:
    """Collects the body, undecoded; whether that was all of it."""
    assert isinstance(response.stream, httpx.AsyncByteStream), "an asynchronous transport gives no other"
    async for chunk in response.stream:
        received += chunk
        if len(received) > READ_BYTES:
            return False
    return True


def judge(status_code: int, retry_after: str | None, received: bytearray, whole: bool) -> Outcome:
    """Only 2xx with a body within bounds is success; elsewhere the status says more than the size."""
    fault = None
    if not 200 <= status_code < 300:
        fault = Fault.HTTP_STATUS
    elif not whole:
        fault = Fault.RESPONSE_TOO_LARGE
    response = bytes(received[:KEPT_BYTES])
    return Outcome(status_code=status_code, fault=fault, retry_after=retry_after, response=response)


def fail(error: Exception) -> Outcome:
    fault, ours = faults.name_fault(error)
    return Outcome(fault=fault, ours=ours)


def describe(url: str) -> dict[str, str | int]:
    """The span's attributes; whoever knows a receiver's path may be able to post to it, so only its host is told."""
    attributes: dict[str, str | int] = {"http.request.method": "POST"}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return attributes
    full = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/REDACTED"
    return attributes | {"server.address": host, "server.port": port, "url.full": full}


def identify(claim: Claim) -> dict[str, str | int]:
    """Whose attempt it is, and how many were before."""
    found: dict[str, str | int] = {"charonia.delivery_id": ids.show(ids.Kind.DELIVERY, claim.id)}
    if claim.job_id is not None:
        found["charonia.job_id"] = ids.show(ids.Kind.JOB, claim.job_id)
    return found | ({"http.request.resend_count": claim.tries} if claim.tries else {})


def finish(span: Span, outcome: Outcome) -> None:
    if outcome.status_code is not None:
        span.set_attribute("http.response.status_code", outcome.status_code)
    if outcome.fault is not None:
        # The convention wants the status code as the type where there is one.
        by_status = outcome.fault is Fault.HTTP_STATUS
        tracing.fail(span, str(outcome.status_code if by_status else outcome.fault))
