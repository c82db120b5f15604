"""Answers of language models as the console reads them."""

import json
from typing import Any

import pytest
from playwright.async_api import Page

from tests.unit.console.conftest import CallJs

ASK = """async (chunks) => {
  const { askModel } = await import("/scripts/chat_stream.js");
  const [present, calls] = [window.fetch, []];
  window.fetch = async (path, options) => {
    calls.push([path, JSON.parse(options.body)]);
    const body = new ReadableStream({ start(sink) {
      for (const chunk of chunks) sink.enqueue(new TextEncoder().encode(chunk));
      sink.close();
    } });
    return new Response(body, { headers: { "X-Charonia-Job": "job_1" } });
  };
  try {
    const request = { model: "m", messages: [], maxTokens: null };
    const { job, parts } = await askModel(request, new AbortController().signal);
    const texts = [];
    try {
      for await (const part of parts) texts.push(part.text);
    } catch (error) {
      texts.push(error.message);
    }
    return { job, texts, calls };
  } finally {
    window.fetch = present;
  }
}"""
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def write_block(text: str | None, reason: str | None = None, **more: Any) -> str:
    delta = {} if text is None else {"content": text}
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more})


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (":", None),
        ("data: [DONE]", "[DONE]"),
        (write_block("one"), {"text": "one", "reason": None, "usage": None}),
        (write_block(None, "length"), {"text": "", "reason": "length", "usage": None}),
        ("data: " + json.dumps({"choices": [], "usage": USAGE}), {"text": "", "reason": None, "usage": USAGE}),
    ],
)
async def test_part(call_js: CallJs, block: str, found: object) -> None:
    assert await call_js("chat_stream.js", "parsePart", block) == found


async def test_an_answer_ends_with_its_mark(modules: Page) -> None:
    found = await modules.evaluate(ASK, [":\n", write_block("one") + "\n\n", "data: [DONE]\n\n", write_block("x")])
    assert (found["job"], found["texts"]) == ("job_1", ["one"])
    ((path, body),) = found["calls"]
    assert (path, body["stream"], "max_completion_tokens" in body) == ("/openai/v1/chat/completions", True, False)


async def test_an_answer_without_its_mark_is_broken(modules: Page) -> None:
    found = await modules.evaluate(ASK, [write_block("one") + "\n\n"])
    assert found["texts"][0] == "one"
    assert "connection broke" in found["texts"][1]


async def test_an_error_in_the_stream_is_shown(modules: Page) -> None:
    error = "event: error\ndata: " + json.dumps({"error": {"message": "the model failed", "code": "x"}})
    assert (await modules.evaluate(ASK, [error + "\n\n"]))["texts"] == ["the model failed"]
