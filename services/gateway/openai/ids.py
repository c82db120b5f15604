"""OpenAI's ids: ours with other prefixes. The job of `chatcmpl_…` is `job_…` with the same letters. Pure."""

from enum import StrEnum
from uuid import UUID

from common import ids


class Prefix(StrEnum):
    """The prefix of an id in OpenAI's API. All of them but the last two are jobs. A message is a job's answer."""

    CHAT = "chatcmpl"
    COMPLETION = "cmpl"
    RESPONSE = "resp"
    MESSAGE = "msg"
    BATCH = "batch"
    FILE = "file"


KINDS = {Prefix.BATCH: ids.Kind.BATCH, Prefix.FILE: ids.Kind.FILE}


def encode(prefix: Prefix, value: UUID) -> str:
    """Return the id of a job, batch or file with this prefix."""
    _, _, letters = ids.encode(KINDS.get(prefix, ids.Kind.JOB), value).rpartition("_")
    return f"{prefix}_{letters}"


def parse(prefix: Prefix, text: str) -> UUID | None:
    """Return the UUID of an id, or None if the text is no id with this prefix."""
    given, separator, letters = text.rpartition("_")
    if not separator or given != prefix:
        return None
    kind = KINDS.get(prefix, ids.Kind.JOB)
    return ids.parse(kind, f"{kind}_{letters}")
