"""What models have written, piece by piece."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from services.gateway.openai.kinds.pieces import TokenUsage, Transcript, UnreadableOutput, read_piece


def transcribe(pieces: Sequence[Any], **options: Any) -> tuple[list[str], Transcript]:
    transcript = Transcript(**options)
    parts = [transcript.add(read_piece(piece)) for piece in pieces]
    return [*parts, transcript.end()], transcript


def test_vllm_tells_reason_and_tokens_of_each_response() -> None:
    counts = {"num_input_tokens": [3.0], "num_output_tokens": [1.0]}
    pieces: list[Any] = [
        {"text_output": [b"one"], "finish_reason": [b"None"], **counts},
        {"text_output": [b" two"], "finish_reason": [b"length"], **counts},
    ]
    parts, transcript = transcribe(pieces)
    assert (parts, transcript.finish_reason, transcript.usage) == (["one", " two", ""], "length", TokenUsage(3, 2, 5))


def test_a_model_in_its_own_words_tells_the_whole_usage_with_its_last_response() -> None:
    last = {"text": [b""], "finish_reason": [b"stop"], "usage": [b'{"prompt_tokens":7,"completion_tokens":9,"x":1}']}
    parts, transcript = transcribe([{"text": [b"one"]}, last])
    assert ("".join(parts), transcript.finish_reason, transcript.usage) == ("one", "stop", TokenUsage(7, 9, 16))


def test_a_model_that_tells_nothing_stops_without_usage() -> None:
    parts, transcript = transcribe([{"text": [b"one"]}])
    assert (parts, transcript.finish_reason, transcript.usage) == (["one", ""], "stop", None)


def test_a_character_in_two_pieces_comes_with_the_second() -> None:
    euro = "€".encode()
    assert transcribe([{"text": [euro[:2]]}, {"text": [euro[2:]]}])[0] == ["", "€", ""]
    assert transcribe([{"text": [euro[:2]]}])[0] == ["", "\ufffd"]


def test_a_text_ends_before_the_stop_text_that_a_model_has_written() -> None:
    pieces = [{"text_output": [b"one ST"]}, {"text_output": [b"OP"]}]
    parts, transcript = transcribe(pieces, stop=["STOP", "two"], max_tokens=2)
    assert ("".join(parts), transcript.finish_reason) == ("one ", "stop")
    told = {"text_output": [b"one STOP"], "finish_reason": [b"stop"]}
    assert "".join(transcribe([told], stop=["STOP"])[0]) == "one STOP"


def test_the_tokens_show_that_a_text_was_cut() -> None:
    piece = {"text_output": [b"one"], "num_input_tokens": [1], "num_output_tokens": [5]}
    assert transcribe([piece], max_tokens=5)[1].finish_reason == "length"
    assert transcribe([piece], max_tokens=6)[1].finish_reason == "stop"


def test_the_job_knows_that_a_text_was_cut_at_the_limit_of_the_configuration() -> None:
    transcript = Transcript()
    transcript.add(read_piece({"text_output": [b"one"], "num_input_tokens": [1], "num_output_tokens": [5]}))
    transcript.end("length")
    assert transcript.finish_reason == "length"
    told = Transcript()
    told.add(read_piece({"text_output": [b"one"], "finish_reason": [b"stop"]}))
    told.end("length")
    assert told.finish_reason == "stop"


def test_tool_calls_are_collected() -> None:
    _, transcript = transcribe(
        [{"text": [b""], "tool_calls": [b'[{"id":"a"}]']}, {"text": [b""], "tool_calls": [b"null"]}]
    )
    assert (transcript.tool_calls, transcript.finish_reason) == ([{"id": "a"}], "tool_calls")


@pytest.mark.parametrize(
    "outputs",
    [
        {},
        {"x": [b"one"]},
        {"text": [b""], "usage": [b"{"]},
        {"text": [b""], "usage": [1.0]},
        {"text": [b""], "finish_reason": [1.0]},
        {"text": [b""], "tool_calls": [b"{}"]},
        {"text": [b""], "num_input_tokens": [float("nan")]},
        {"text": [b""], "num_output_tokens": [b"many"]},
    ],
)
def test_outputs_of_another_form_are_unreadable(outputs: Mapping[str, Sequence[Any]]) -> None:
    with pytest.raises(UnreadableOutput):
        read_piece(outputs)
