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

FOLLOW = """async (bodies) => {
  const { onTenantEvent } = await import("/scripts/live.js");
  const [calls, present] = [[], window.fetch];
  window.fetch = async (_path, { headers }) => {
    calls.push(`opened after ${headers["Last-Event-ID"] ?? "latest"}`);
    return new Response(bodies.shift());
  };
  let stop;
  await new Promise((resolve) => {
    stop = onTenantEvent((event) => {
      calls.push(event?.id ?? "missed");
      if (event?.type === "last") resolve();
    });
  });
  stop();
  window.fetch = present;
  return calls;
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


async def test_listeners_learn_that_events_before_the_first_one_may_be_missed(modules: Page) -> None:
    found = await modules.evaluate(FOLLOW, [":\n", "id: 7\ndata: {}\n\n", "id: 8\nevent: last\ndata: {}\n\n"])
    assert found == ["opened after latest", "opened after latest", "missed", "7", "opened after 7", "8"]
