"""What tensors hold."""

import base64
from typing import Any

import pytest
from playwright.async_api import Page

from tests.support.api.model_inputs import IMAGE
from tests.unit.console.conftest import CallJs


def output(name: str, datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (IMAGE, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"RIFF\x00\x00\x00\x00AVI ", None),
        (b"<svg onload='x'>", None),
        (b"<!DOCTYPE html>", None),
        (b"", None),
    ],
)
async def test_only_images_and_sounds_are_shown(modules: Page, content: bytes, media_type: str | None) -> None:
    script = """async (text) => {
      const { decodeBase64, detectMedia } = await import("/scripts/tensors.js");
      return detectMedia(decodeBase64(text));
    }"""
    assert await modules.evaluate(script, base64.b64encode(content).decode()) == media_type


@pytest.mark.parametrize(
    ("data", "shape", "rows"),
    [
        ([1, 2, 3], [3], [[1], [2], [3]]),
        ([1, 2, 3, 4], [2, 2], [[1, 2], [3, 4]]),
        (list(range(8)), [2, 2, 2], [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ([], [0, 4], []),
        ([], [2, 0], []),
        ([5], [], [[5]]),
    ],
)
async def test_rows_of_a_tensor(call_js: CallJs, data: list[int], shape: list[int], rows: list[list[int]]) -> None:
    assert await call_js("tensors.js", "toRows", data, shape) == rows


async def test_boxes_have_the_texts_of_the_same_number(call_js: CallJs) -> None:
    corners = [0, 0, 9, 0, 9, 5, 0, 5]
    outputs = [
        output("text", "BYTES", [2], ["first", "second"]),
        output("boxes", "FP32", [2, 4, 2], corners + [each + 10 for each in corners]),
        output("scores", "FP32", [2], [0.9, 0.8]),
    ]
    first, second = await call_js("tensors.js", "findBoxes", outputs)
    assert (first["text"], second["text"]) == ("first", "second")
    assert first["points"] == [[0, 0], [9, 0], [9, 5], [0, 5]]
    assert second["points"][2] == [19, 15]


async def test_boxes_of_a_stream_come_one_by_one(call_js: CallJs) -> None:
    part = [output("text", "BYTES", [1], ["line"]), output("box", "FP32", [4, 2], [1, 1, 2, 1, 2, 2, 1, 2])]
    assert [each["text"] for each in await call_js("tensors.js", "findBoxes", part * 3)] == ["line"] * 3


@pytest.mark.parametrize(
    "other",
    [
        output("boxes", "FP32", [2, 4], [1] * 8),
        output("mask", "FP32", [4, 2], [1] * 8),
        output("box", "FP32", [0, 4, 2], []),
    ],
)
async def test_other_tensors_are_no_boxes(call_js: CallJs, other: dict[str, Any]) -> None:
    assert await call_js("tensors.js", "findBoxes", [other]) == []


async def test_responses_of_a_stream_are_joined(call_js: CallJs) -> None:
    parts = [output("token", "BYTES", [1], [word]) for word in ("one", "two")]
    numbers = [output("score", "FP32", [1], [value]) for value in (0.5, 1.5)]
    joined = await call_js("tensors.js", "joinResponses", [parts[0], numbers[0], parts[1], numbers[1]])
    assert [(each["name"], each["data"], each["shape"], each["responses"]) for each in joined] == [
        ("token", ["one", "two"], [2], 2),
        ("score", [0.5, 1.5], [2, 1], 2),
    ]


async def test_outputs_of_one_response_stay_as_they_are(call_js: CallJs) -> None:
    outputs = [output("text", "BYTES", [2, 1], ["a", "b"]), output("x", "FP32", [2], [1.5, 2.5])]
    assert await call_js("tensors.js", "joinResponses", outputs) == outputs


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["The", " quick", " fox", "."], "The quick fox."),
        (["two ", "words"], "two words"),
        (["one", "two"], "one two"),
        (["a first line", "a second line"], None),
        (["text", {"base64": "/w=="}], None),
    ],
)
async def test_pieces_of_a_text_are_joined(call_js: CallJs, pieces: list[object], text: str | None) -> None:
    assert await call_js("tensors.js", "joinPieces", pieces) == text
