"""The request that a job remembers: which endpoint it came to, and its body as it came. Pure."""

from codecs import BOM_UTF8
from enum import StrEnum

import msgspec


class Endpoint(StrEnum):
    """The calls that become jobs, by the names that OpenAI's batches have for them."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    EMBEDDINGS = "/v1/embeddings"
    RESPONSES = "/v1/responses"


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, as its job remembers it.

    `store` is false for a response that nobody may get later, and absent otherwise. It is before the body, so that the
    database knows without reading that: `openai_event_type` in 0002_openai.sql compares the beginning.
    """

    endpoint: str
    store: bool = True
    body: msgspec.Raw


def write_record(endpoint: Endpoint, body: bytes, *, store: bool = True) -> bytes:
    """Return what a job remembers of a request. The body must be valid JSON."""
    raw = msgspec.Raw(body.removeprefix(BOM_UTF8))
    return msgspec.json.encode(RequestRecord(endpoint=endpoint, store=store, body=raw))


def read_record(record: bytes) -> RequestRecord:
    return msgspec.json.decode(record, type=RequestRecord)
