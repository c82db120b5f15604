"""What a response shows of its request. Pure."""

from typing import Any

import msgspec

from services.gateway.openai.calls.parameters import AnyObject
from services.gateway.openai.calls.record import Endpoint, read_record
from services.gateway.openai.calls.translation import Shown


class Echo(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a request that was accepted. A later release may have accepted more of them."""

    model: str
    background: bool | None = None
    instructions: Any = None
    max_output_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    reasoning: AnyObject | None = None
    safety_identifier: str | None = None
    store: bool | None = None
    stream: bool | None = None
    temperature: float | None = None
    text: AnyObject | None = None
    tool_choice: Any = None
    top_p: float | None = None
    user: str | None = None

    @property
    def is_stored(self) -> bool:
        """Whether clients may get the response later."""
        return self.store is not False


class ShownResponse(Shown, frozen=True, kw_only=True):
    """What the answer needs of a request for a response."""

    echo: Echo


class StoredRequest(msgspec.Struct, frozen=True):
    """The request of a response: its body as it came, and what the response shows of it."""

    body: bytes
    echo: Echo


def read_request(record: bytes) -> StoredRequest | None:
    """Return the request that a job remembers, or None if the job is no response that clients may get."""
    found = read_record(record)
    if found.endpoint != Endpoint.RESPONSES:
        return None
    echo = msgspec.json.decode(found.body, type=Echo)
    return StoredRequest(bytes(found.body), echo) if echo.is_stored else None


def show(echo: Echo) -> ShownResponse:
    """Return what the answer needs of a request."""
    return ShownResponse(model=echo.model, stream=bool(echo.stream), max_tokens=echo.max_output_tokens, echo=echo)
