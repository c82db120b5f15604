"""Fetches inputs of jobs from URLs, by the rules of webhooks: to allowed addresses only, also after redirects."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple, assert_never
from urllib.parse import urldefrag, urljoin, urlsplit
from uuid import UUID

import httpx
from opentelemetry.trace import SpanKind

from common import VERSION
from common.errors import AddressRefused
from common.http_client import errors
from common.http_client.client import CheckedClient
from common.http_client.spans import describe_url
from common.job_states import Failure
from common.security.ssrf import AddressPolicy, check_url
from common.telemetry import tracing
from common.tensors import MAX_INPUT_BYTES, SIZES, Datatype, FileContent, ObjectContent, Tensor, UrlContent
from services.dispatcher.inputs import url_failures
from services.dispatcher.inputs.fetched import PIECE, FetchedContent, FetchFolder
from services.dispatcher.inputs.url_failures import REDIRECTS, FetchFailed
from services.dispatcher.triton.errors import InferenceError

MAX_REDIRECTS = 5
MAX_URL = 16_000  # characters, also of a redirect
HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": f"Charonia/{VERSION}"}


class FetchLimits(NamedTuple):
    """The most bytes of one input, and the most seconds for all inputs of a job."""

    max_tensor: int
    timeout: float


class UrlFetcher:
    def __init__(self, client: CheckedClient, policy: AddressPolicy, limits: FetchLimits, folder: FetchFolder) -> None:
        self._client = client
        self._policy = policy
        self._limits = limits
        self._folder = folder

    async def close(self) -> None:
        await self._client.close()
        self._folder.close()

    @asynccontextmanager
    async def fetch(
        self, tenant_id: UUID, inputs: Sequence[Tensor], timeout: float
    ) -> AsyncIterator[dict[str, FetchedContent]]:
        """Fetch the inputs that are at URLs, one after the other. Yield them by name; they are removed at the end.

        Raises InferenceError, also after `timeout` seconds.
        """
        found: dict[str, FetchedContent] = {}
        known = sum(measure(tensor) for tensor in inputs)
        seconds = min(timeout, self._limits.timeout)
        current = ""
        with ExitStack() as held:
            try:
                async with asyncio.timeout(seconds):
                    for tensor in inputs:
                        if isinstance(tensor.data, UrlContent):
                            current = describe_input(tensor.name, tensor.data.url)
                            content = await self._folder.open(tenant_id)
                            held.callback(content.close)
                            await self._fetch_one(tensor, tensor.data.url, content, known, sum_sizes(found))
                            found[tensor.name] = content
            except TimeoutError:
                raise explain(current, url_failures.explain_timeout(seconds)) from None
            except FetchFailed as error:
                raise explain(current, error.failure) from error
            yield found

    async def _fetch_one(self, tensor: Tensor, url: str, content: FetchedContent, known: int, before: int) -> None:
        """Write the content at a URL. Raises FetchFailed, and InferenceError without space.

        `known` are the bytes of inputs from elsewhere, and `before` those that were fetched before.
        """
        wanted = None if tensor.datatype is Datatype.BYTES else math.prod(tensor.shape) * SIZES[tensor.datatype]
        limit = min(self._limits.max_tensor, MAX_INPUT_BYTES - known - before, self._folder.space.largest - before)
        if wanted is not None and wanted > limit:
            raise FetchFailed(url_failures.explain_size(limit))
        first = url
        for _ in range(MAX_REDIRECTS + 1):
            try:
                check_url(url, self._policy, MAX_URL)
            except AddressRefused as error:
                raise FetchFailed(url_failures.refuse(error, redirected=url != first)) from error
            target = await self._request(url, limit, wanted, content)
            if target is None:
                if wanted not in (None, content.size):
                    raise FetchFailed(url_failures.explain_wrong_size(wanted or 0, content.size))
                return
            url = target
        raise FetchFailed(Failure("input_url_failed", f"redirects more than {MAX_REDIRECTS} times", False))

    async def _request(self, url: str, limit: int, wanted: int | None, content: FetchedContent) -> str | None:
        """Write the content, or return where it is instead. Raises as `_fetch_one` does."""
        with tracing.start_span("GET input", kind=SpanKind.CLIENT, attributes=describe_url("GET", url)) as span:
            try:
                request = self._client.build_request("GET", httpx.URL(url), HEADERS)
                response = await self._client.send(request)
                span.set_attribute("http.response.status_code", response.status_code)
                try:
                    if (target := find_target(response, url)) is not None:
                        return target
                    check_head(response, limit, wanted)
                    content.check_space(wanted or url_failures.read_length(response.headers) or 0)
                    await receive(response, limit, wanted, content)
                finally:
                    await response.aclose()
            except errors.EXPECTED as error:
                name, _ = errors.classify(error)
                raise FetchFailed(url_failures.explain_error(name), name) from error
        return None


def find_target(response: httpx.Response, url: str) -> str | None:
    """Return where a response redirects to. Raises FetchFailed if it does not say it."""
    if response.status_code not in REDIRECTS:
        return None
    location: str = response.headers.get("location", "")
    try:
        target = urldefrag(urljoin(url, location)).url
    except ValueError:
        raise FetchFailed(Failure("input_url_failed", "redirects to a URL that is none", False)) from None
    if not location:
        raise FetchFailed(Failure("input_url_failed", "redirects to nowhere", False))
    return target


def check_head(response: httpx.Response, limit: int, wanted: int | None) -> None:
    failure = url_failures.explain_status(response.status_code)
    failure = failure or url_failures.explain_headers(response.headers, limit, wanted)
    if failure is not None:
        raise FetchFailed(failure)


async def receive(response: httpx.Response, limit: int, wanted: int | None, content: FetchedContent) -> None:
    """Write the body. Raises FetchFailed once it has more bytes than it may have."""
    assert isinstance(response.stream, httpx.AsyncByteStream), "an asynchronous transport returns no other stream"
    most, pieces = limit if wanted is None else wanted, bytearray()
    async for piece in response.stream:
        pieces += piece
        if content.size + len(pieces) > most:
            raise FetchFailed(
                url_failures.explain_size(limit) if wanted is None else url_failures.explain_wrong_size(wanted, None)
            )
        if len(pieces) >= PIECE:
            await content.write(bytes(pieces))
            pieces.clear()
    await content.write(bytes(pieces))
    await content.rewind()


def measure(tensor: Tensor) -> int:
    """Return the bytes of an input that is not fetched."""
    match tensor.data:
        case bytes():
            return len(tensor.data)
        case FileContent() | ObjectContent():
            return tensor.data.bytes_read
        case UrlContent():
            return 0
        case never:
            assert_never(never)


def sum_sizes(found: dict[str, FetchedContent]) -> int:
    return sum(content.size for content in found.values())


def describe_input(name: str, url: str) -> str:
    """Return the name of an input and its host: the rest of the URL may be secret."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = "its host"
    return f"input '{name}': {host}"


def explain(subject: str, failure: Failure) -> InferenceError:
    message = f"{subject} {failure.message}"
    return InferenceError(Failure(failure.code, message, failure.retryable))
