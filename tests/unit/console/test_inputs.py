"""Fields for the inputs of a model, and what is sent for them."""

import asyncio
import base64
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error

from tests.unit.console.conftest import CallJs


def tensor(
    name: str = "x", datatype: str = "FP32", shape: tuple[int, ...] = (1,), **options: bool
) -> dict[str, object]:
    fields = {"name": name, "datatype": datatype, "shape": list(shape), "optional": False, "reference": False}
    return fields | options


def value(kind: str, text: str) -> dict[str, object]:
    return {"kind": kind, "text": text, "file": None}


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (tensor("image", "BYTES"), "file"),
        (tensor("prompt", "BYTES"), "text"),
        (tensor("audio", "BYTES", reference=True), "file"),
        (tensor("ms", "INT32", (-1, 1)), "number"),
        (tensor("flag", "BOOL"), "boolean"),
        (tensor("x", "FP32", (-1, 3)), "json"),
        (tensor("words", "BYTES", (2,)), "json"),
    ],
)
async def test_likeliest_kind_of_a_field(call_js: CallJs, given: dict[str, object], first: str) -> None:
    assert (await call_js("inputs.js", "listKinds", given))[0] == first


@pytest.mark.parametrize(
    ("given", "entered", "sent"),
    [
        (tensor("x", "FP32", (-1, 1)), value("number", " 2.5 "), [[2.5]]),
        (tensor("x", "INT64"), value("number", "9007199254740993"), [9007199254740993]),
        (tensor("x", "INT64", (1, 2)), value("json", "[[9007199254740993, -1]]"), [[9007199254740993, -1]]),
        (tensor("x", "FP32"), value("number", "nan"), ["NaN"]),
        (tensor("x", "FP32"), value("number", "-Infinity"), ["-Infinity"]),
        (tensor("x", "BYTES"), value("text", ""), [""]),
        (tensor("x", "BOOL"), value("boolean", "true"), [True]),
        (tensor("x", "FP32", (2, 2)), value("json", "[[1, 2], [3, 4]]"), [[1, 2], [3, 4]]),
        (tensor("x", optional=True), value("number", " "), None),
        (tensor("x", "BYTES", optional=True), value("text", ""), None),
    ],
)
async def test_what_is_sent(
    call_js: CallJs, given: dict[str, object], entered: dict[str, object], sent: object
) -> None:
    assert await call_js("inputs.js", "readValue", given, entered) == sent


@pytest.mark.parametrize(("kind", "text"), [("number", "many"), ("number", ""), ("json", "[1,")])
async def test_mistake_names_the_input(call_js: CallJs, kind: str, text: str) -> None:
    with pytest.raises(Error, match="weights: expected"):
        await call_js("inputs.js", "readValue", tensor("weights"), value(kind, text))


@pytest.mark.parametrize("given", [tensor(shape=(-1, 3)), tensor("x", "BYTES", (2, 100)), tensor("x", "BOOL")])
async def test_example_is_json_of_as_many_dimensions(call_js: CallJs, given: dict[str, Any]) -> None:
    example = json.loads(await call_js("inputs.js", "makeExample", given))
    for _ in given["shape"]:
        assert isinstance(example, list)
        example = example[0]
    assert not isinstance(example, list)


async def test_example_of_a_file_is_no_text(call_js: CallJs) -> None:
    assert await call_js("inputs.js", "makeExample", tensor("image", "BYTES")) == '[{"base64": "…"}]'


async def test_snippets_are_commands_of_the_same_run(call_js: CallJs) -> None:
    inputs = {"text": {"value": ["it's true, null"]}, "flag": {"value": [True, None]}, "image": {"file": "my scan.png"}}
    cli, python, _curl = await call_js("inputs.js", "writeSnippets", "ocr", inputs, "http://gateway")
    assert shlex.split(cli["text"])[:3] == ["charonia", "run", "ocr"]
    assert "image=@my scan.png" in shlex.split(cli["text"])
    assert """text:=["it's true, null"]""" in shlex.split(cli["text"])
    compile(python["text"], "snippet", "exec")
    assert '"flag": [True,None]' in python["text"]
    assert "it's true, null" in python["text"]


@pytest.mark.parametrize("size", [7, 200_000])  # one argument of a program may have 128 KiB
async def test_snippet_of_curl_sends_a_file(call_js: CallJs, tmp_path: Path, size: int) -> None:
    content = bytes(size)
    (tmp_path / "it's a $scan.png").write_bytes(content)
    inputs = {"text": {"value": ["it's", "$HOME", "100 %s"]}, "image": {"file": "it's a $scan.png"}}
    sent = await run_curl(tmp_path, await call_js("inputs.js", "writeSnippets", "ocr", inputs, "http://gateway"))
    assert sent == {
        "model": "ocr",
        "inputs": {
            "text": ["it's", "$HOME", "100 %s"],
            "image": [{"base64": base64.b64encode(content).decode()}],
        },
    }


async def test_snippet_of_curl_sends_values(call_js: CallJs, tmp_path: Path) -> None:
    inputs = {"text": {"value": ["it's"]}}
    sent = await run_curl(tmp_path, await call_js("inputs.js", "writeSnippets", "echo", inputs, "http://gateway"))
    assert sent == {"model": "echo", "inputs": {"text": ["it's"]}}


async def run_curl(folder: Path, snippets: list[dict[str, str]]) -> object:
    """Run the third snippet with a program in place of curl, and return the body that it gets."""
    program = folder / "curl"
    program.write_text('#!/bin/bash\nif [ "${@: -1}" = @- ]; then cat; else printf %s "${@: -1}"; fi\n')
    program.chmod(0o700)
    script = f"PATH={shlex.quote(str(folder))}:$PATH; {snippets[2]['text']}"
    return json.loads(await asyncio.to_thread(subprocess.check_output, ["bash", "-c", script], cwd=folder))
