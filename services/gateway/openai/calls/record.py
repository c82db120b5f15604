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


class RequestRecord(msgspec.Struct, frozen=True):
    """A request, as its job remembers it."""

    endpoint: str
    body: msgspec.Raw


def write_record(endpoint: Endpoint, body: bytes) -> bytes:
    """Return what a job remembers of a request. The body must be valid JSON."""
    return msgspec.json.encode(RequestRecord(endpoint, msgspec.Raw(body.removeprefix(BOM_UTF8))))


def read_record(record: bytes) -> RequestRecord:
    return msgspec.json.decode(record, type=RequestRecord)
