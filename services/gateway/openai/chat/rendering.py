"""Writes chat completions and their chunks. Pure."""

from typing import Any

import msgspec

from common.jobs.job import Job
from services.gateway.openai.calls.translation import SHOWN_TIERS, Shown
from services.gateway.openai.chat.schemas import AnswerMessage, ChatChoice, ChatCompletion
from services.gateway.openai.ids import Prefix, encode
from services.gateway.openai.kinds.pieces import TokenUsage, Transcript


def write_completion(row: Job, text: str, transcript: Transcript) -> ChatCompletion:
    """Return the answer of a job that has succeeded."""
    calls = transcript.tool_calls or None
    message = AnswerMessage(
        role="assistant", content=text if text or not calls else None, refusal=None, tool_calls=calls
    )
    return ChatCompletion(
        id=encode(Prefix.CHAT, row.id),
        object="chat.completion",
        created=int(row.created_at.timestamp()),
        model=row.model,
        choices=[ChatChoice(index=0, message=message, finish_reason=transcript.finish_reason)],
        usage=transcript.usage,
        service_tier=SHOWN_TIERS.get(row.priority, "default"),
    )


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None
    tool_calls: list[Any] | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: Delta
    logprobs: None
    finish_reason: str | None


class Chunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    object: str
    created: int
    model: str
    choices: list[ChunkChoice]
    service_tier: str
    usage: TokenUsage | msgspec.UnsetType | None = msgspec.UNSET


class ChatChunkWriter:
    """Writes the chunks of one answer. The first has the role."""

    def __init__(self, row: Job, shown: Shown) -> None:
        self._shown = shown
        self._role: str | None = "assistant"
        self._base = Chunk(
            id=encode(Prefix.CHAT, row.id),
            object="chat.completion.chunk",
            created=int(row.created_at.timestamp()),
            model=row.model,
            choices=[],
            service_tier=SHOWN_TIERS.get(row.priority, "default"),
        )

    def _write(self, delta: Delta, reason: str | None = None) -> bytes:
        usage = None if self._shown.include_usage else msgspec.UNSET  # OpenAI has null in all but the last
        choice = ChunkChoice(0, delta, None, reason)
        return msgspec.json.encode(msgspec.structs.replace(self._base, choices=[choice], usage=usage))

    def write_text(self, text: str) -> bytes:
        role, self._role = self._role, None
        return self._write(Delta(role, text))

    def write_end(self, transcript: Transcript) -> list[bytes]:
        chunks = []
        if calls := transcript.tool_calls:
            role, self._role = self._role, None
            numbered = [{"index": number, **call} for number, call in enumerate(calls)]
            chunks.append(self._write(Delta(role, tool_calls=numbered)))
        elif self._role is not None:
            chunks.append(self.write_text(""))
        chunks.append(self._write(Delta(), transcript.finish_reason))
        if self._shown.include_usage:
            chunks.append(msgspec.json.encode(msgspec.structs.replace(self._base, usage=transcript.usage)))
        return chunks
