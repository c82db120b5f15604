"""OpenAI's ids: ours with other prefixes. The job of `chatcmpl_…` is `job_…` with the same letters. Pure."""

from enum import StrEnum
from uuid import UUID

from common import ids


class Prefix(StrEnum):
    """The prefix of an id in OpenAI's API: of a job, its answer, a batch, one of its two files, or a file."""

    CHAT = "chatcmpl"
    COMPLETION = "cmpl"
    RESPONSE = "resp"
    MESSAGE = "msg"
    BATCH = "batch"
    OUTPUT = "file_output"  # with the letters of the batch
    ERRORS = "file_errors"
    FILE = "file"


KINDS = {
    **dict.fromkeys((Prefix.BATCH, Prefix.OUTPUT, Prefix.ERRORS), ids.Kind.BATCH),
    Prefix.FILE: ids.Kind.FILE,
}


ANY_FILE = "file(_output|_errors)?"  # a pattern of the prefixes of files


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
