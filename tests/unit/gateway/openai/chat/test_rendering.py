"""Chat completions and their chunks, in OpenAI's form."""

from typing import Any

import msgspec

from services.gateway.openai.calls.translation import Shown
from services.gateway.openai.chat.rendering import ChatChunkWriter, write_completion
from services.gateway.openai.kinds.pieces import Piece, Transcript
from tests.unit.gateway.samples import ROW

CALL = {"id": "a", "type": "function", "function": {"name": "find", "arguments": "{}"}}


def transcribe(*pieces: Piece) -> Transcript:
    transcript = Transcript()
    for piece in pieces:
        transcript.add(piece)
    return transcript


def read(chunks: list[bytes]) -> list[Any]:
    return [msgspec.json.decode(chunk) for chunk in chunks]


def test_a_completion_has_the_text_the_reason_and_the_usage() -> None:
    transcript = transcribe(Piece(b"hi", "length", prompt_tokens=2, completion_tokens=1))
    found = msgspec.to_builtins(write_completion(ROW, "hi", transcript))
    assert found["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi", "refusal": None},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert found["usage"] == {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    assert (found["object"], found["service_tier"], found["created"]) == ("chat.completion", "default", 1767225600)


def test_tool_calls_stand_beside_a_null_text() -> None:
    found = msgspec.to_builtins(write_completion(ROW, "", transcribe(Piece(b"", tool_calls=[CALL]))))
    assert (found["choices"][0]["message"]["content"], found["choices"][0]["finish_reason"]) == (None, "tool_calls")
    assert found["choices"][0]["message"]["tool_calls"] == [CALL]


def test_the_first_chunk_has_the_role_and_the_last_the_reason() -> None:
    writer = ChatChunkWriter(ROW, Shown(model="m"))
    chunks = read([writer.write_text("a"), writer.write_text("b"), *writer.write_end(transcribe(Piece(b"ab", "stop")))])
    deltas = [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in chunks]
    assert deltas == [({"role": "assistant", "content": "a"}, None), ({"content": "b"}, None), ({}, "stop")]
    assert "usage" not in chunks[0]


def test_the_usage_comes_last_if_asked_for() -> None:
    writer = ChatChunkWriter(ROW, Shown(model="m", include_usage=True))
    *others, last = read(writer.write_end(transcribe(Piece(b"", prompt_tokens=1, completion_tokens=2))))
    assert [chunk["usage"] for chunk in others] == [None, None]
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 3)


def test_tool_calls_are_one_chunk_with_numbers() -> None:
    first, end = read(ChatChunkWriter(ROW, Shown(model="m")).write_end(transcribe(Piece(b"", tool_calls=[CALL]))))
    assert first["choices"][0]["delta"] == {"role": "assistant", "tool_calls": [{"index": 0, **CALL}]}
    assert end["choices"][0]["finish_reason"] == "tool_calls"
