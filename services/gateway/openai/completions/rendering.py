"""Writes completions and their chunks, which have the same form. Pure."""

import msgspec

from common.jobs.job import Job
from services.gateway.openai.calls.translation import Shown
from services.gateway.openai.completions.schemas import Completion, CompletionChoice
from services.gateway.openai.ids import Prefix, encode
from services.gateway.openai.kinds.pieces import Transcript


def begin(row: Job) -> Completion:
    """Return a completion without a text."""
    created = int(row.created_at.timestamp())
    return Completion(
        id=encode(Prefix.COMPLETION, row.id), object="text_completion", created=created, model=row.model, choices=[]
    )


def write_completion(row: Job, shown: Shown, text: str, transcript: Transcript) -> Completion:
    """Return the answer of a job that has succeeded."""
    choice = CompletionChoice(index=0, text=shown.prefix + text, finish_reason=transcript.finish_reason)
    return msgspec.structs.replace(begin(row), choices=[choice], usage=transcript.usage)


class CompletionChunkWriter:
    """Writes the chunks of one answer. The first begins with the prompt if it is to be echoed."""

    def __init__(self, row: Job, shown: Shown) -> None:
        self._base = begin(row)
        self._prefix = shown.prefix
        self._include_usage = shown.include_usage

    def _write(self, text: str, reason: str | None = None) -> bytes:
        text, self._prefix = self._prefix + text, ""
        choice = CompletionChoice(index=0, text=text, finish_reason=reason)
        usage = None if self._include_usage else msgspec.UNSET  # OpenAI has null in all but the last
        return msgspec.json.encode(msgspec.structs.replace(self._base, choices=[choice], usage=usage))

    def write_text(self, text: str) -> bytes:
        return self._write(text)

    def write_end(self, transcript: Transcript) -> list[bytes]:
        chunks = [self._write("", transcript.finish_reason)]
        if self._include_usage:
            chunks.append(msgspec.json.encode(msgspec.structs.replace(self._base, usage=transcript.usage)))
        return chunks
