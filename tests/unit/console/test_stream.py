"""Server-sent events as the console reads them."""

import json

import pytest
from playwright.async_api import Page

from tests.unit.console.conftest import CallJs

READ = """async (chunks) => {
  const { readEvents } = await import("/scripts/stream.js");
  const encoder = new TextEncoder();
  const bytes = chunks.flatMap((chunk) => [...encoder.encode(chunk)]);
  const body = new ReadableStream({ start(sink) {
    for (let at = 0; at < bytes.length; at += 3) sink.enqueue(new Uint8Array(bytes.slice(at, at + 3)));
    sink.close();
  } });
  const events = [];
  for await (const event of readEvents(new Response(body))) events.push(event);
  return events;
}"""


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (": heartbeat", None),
        ('id: 7\nevent: job.failed\ndata: {"a": 1}', {"id": "7", "type": "job.failed", "data": {"a": 1}}),
        ('data:{"a":\ndata: 1}', {"id": "", "type": "message", "data": {"a": 1}}),
        ("retry: 3000", None),
    ],
)
async def test_block(call_js: CallJs, block: str, found: object) -> None:
    assert await call_js("stream.js", "parseEvent", block) == found


async def test_events_survive_any_cut_of_the_stream(modules: Page) -> None:
    events = [
        f"id: {number}\ndata: {json.dumps({'text': 'höchst – 漢字'}, ensure_ascii=False)}\n\n" for number in range(5)
    ]
    found = await modules.evaluate(READ, [": open\n\n", *events, "id: 9\ndata: {}"])  # the last one is incomplete
    assert [each["id"] for each in found] == ["0", "1", "2", "3", "4"]
    assert {each["data"]["text"] for each in found} == {"höchst – 漢字"}
