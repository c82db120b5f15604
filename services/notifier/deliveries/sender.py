"""Sends one delivery attempt: check, sign, send and read the response, within one deadline."""

import asyncio
import time
from collections.abc import Mapping
from functools import lru_cache

import httpx
import msgspec
from opentelemetry.trace import Span, SpanKind

from common import ids
from common.errors import SecretUnreadable
from common.http_client import errors
from common.http_client.client import CheckedClient
from common.http_client.spans import describe_url
from common.security import webhook_signatures
from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy, check_url
from common.telemetry import tracing
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.deliveries import headers
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult

MAX_READ_BYTES = 64 * 1024
STORED_BYTES = 16 * 1024
CACHE_SIZE = 10_000  # parsed URLs, and decrypted secrets

headers_decoder = msgspec.json.Decoder(dict[str, str])


class Sender:
    """Sends over connections that stay open between deliveries."""

    def __init__(self, client: CheckedClient, encryptor: Encryptor, policy: AddressPolicy, timeout: float) -> None:
        """`timeout` is the deadline of a whole attempt, in seconds."""
        self._client = client
        self._encryptor = encryptor
        self._policy = policy
        self._timeout = timeout
        # A receiver gets many deliveries: check its URL and decrypt its secret once.
        self._parse_url = lru_cache(CACHE_SIZE)(self._check_and_parse)
        self._decrypt_secret = lru_cache(CACHE_SIZE)(self._decrypt)

    @classmethod
    def open(
        cls, encryptor: Encryptor, policy: AddressPolicy, *, timeout: float, concurrency: int, proxy: str = ""
    ) -> "Sender":
        client = CheckedClient.open(policy, timeout=timeout, concurrency=concurrency, proxy=proxy)
        return cls(client, encryptor, policy, timeout)

    async def close(self) -> None:
        await self._client.close()

    async def send(self, claim: ClaimedDelivery) -> AttemptResult:
        """Attempt a delivery.

        Errors of the receiver, the network or a secret are returned, not raised.
        """
        start = time.perf_counter()
        context = tracing.to_context(claim.traceparent)
        with tracing.start_span("POST webhook", context, SpanKind.CLIENT) as span:
            if span.is_recording():
                span.set_attributes(describe_url("POST", claim.url) | describe_claim(claim))
            result = await self._attempt(claim, tracing.to_traceparent(span))
            record_result(span, result)
        return msgspec.structs.replace(result, seconds=time.perf_counter() - start)

    async def _attempt(self, claim: ClaimedDelivery, traceparent: str) -> AttemptResult:
        try:
            signed = self._write_headers(claim, traceparent)
        except (SecretUnreadable, ValueError, msgspec.DecodeError):
            return AttemptResult(error=AttemptError.SECRET_UNREADABLE, internal=True)
        try:
            request = self.build_request(self._parse_url(claim.url), claim.body, signed)
        except errors.EXPECTED as error:
            return to_failure(error)
        return await self.exchange(request)

    def _check_and_parse(self, url: str) -> httpx.URL:
        """Raises AddressRefused for a URL that may not be used."""
        check_url(url, self._policy)
        return httpx.URL(url)

    def _decrypt(self, secret: bytes) -> str:
        return self._encryptor.decrypt(secret).decode()

    def build_request(self, url: httpx.URL, body: bytes, signed: Mapping[str, str]) -> httpx.Request:
        """Return the request that delivers a body."""
        return self._client.build_request("POST", url, signed, body)

    def _write_headers(self, claim: ClaimedDelivery, traceparent: str) -> dict[str, str]:
        secrets = [self._decrypt_secret(secret) for secret in claim.secrets]
        custom = {} if claim.headers is None else headers_decoder.decode(self._encryptor.decrypt(claim.headers))
        message_id, timestamp = ids.encode(ids.Kind.DELIVERY, claim.id), int(time.time())
        return headers.compose(
            custom,
            message_id=message_id,
            timestamp=timestamp,
            signature=webhook_signatures.sign(secrets, message_id, timestamp, claim.body),
            traceparent=traceparent,
        )

    async def exchange(self, request: httpx.Request) -> AttemptResult:
        """Send the request and read the response. A failure keeps what was received before it."""
        status_code, retry_after, received = None, None, bytearray()
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.send(request)
                status_code, retry_after = response.status_code, response.headers.get("retry-after")
                try:
                    complete = await read(response, received)
                finally:
                    await response.aclose()
        except errors.EXPECTED as error:
            failed, stored = to_failure(error), bytes(received[:STORED_BYTES])
            return msgspec.structs.replace(failed, status_code=status_code, retry_after=retry_after, response=stored)
        return classify_response(status_code, retry_after, received, complete)


async def read(response: httpx.Response, received: bytearray) -> bool:
    """Collect the raw body. Return False if it exceeds MAX_READ_BYTES."""
    assert isinstance(response.stream, httpx.AsyncByteStream), "an asynchronous transport returns no other stream"
    async for chunk in response.stream:
        received += chunk
        if len(received) > MAX_READ_BYTES:
            return False
    return True


def classify_response(status_code: int, retry_after: str | None, received: bytearray, complete: bool) -> AttemptResult:
    """Success is a 2xx with a body within the limit. Otherwise the status matters more than the size."""
    error = None
    if not 200 <= status_code < 300:
        error = AttemptError.HTTP_STATUS
    elif not complete:
        error = AttemptError.RESPONSE_TOO_LARGE
    stored = bytes(received[:STORED_BYTES])
    return AttemptResult(status_code=status_code, error=error, retry_after=retry_after, response=stored)


def to_failure(error: Exception) -> AttemptResult:
    name, internal = errors.classify(error)
    return AttemptResult(error=AttemptError(name), internal=internal)


def describe_claim(claim: ClaimedDelivery) -> dict[str, str | int]:
    """Return the span's attributes for a claim: its ids, and the number of earlier attempts."""
    found: dict[str, str | int] = {"charonia.delivery_id": ids.encode(ids.Kind.DELIVERY, claim.id)}
    if claim.job_id is not None:
        found["charonia.job_id"] = ids.encode(ids.Kind.JOB, claim.job_id)
    return found | ({"http.request.resend_count": claim.tries} if claim.tries else {})


def record_result(span: Span, result: AttemptResult) -> None:
    if result.status_code is not None:
        span.set_attribute("http.response.status_code", result.status_code)
    if result.error is not None:
        # The semantic convention uses the status code as the error type if there is one.
        by_status = result.error is AttemptError.HTTP_STATUS
        tracing.record_error(span, str(result.status_code if by_status else result.error))
