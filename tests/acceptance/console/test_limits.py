"""What the console costs: requests, bytes, time and memory."""

import re
from typing import Any

from playwright.async_api import CDPSession, Page, Route, expect

from common import ids
from console.assets import read_assets
from deploy.local.stack import Stack
from tests.acceptance.console.conftest import Console, open_database
from tests.support.api.model_inputs import fault
from tests.support.receivers.webhook_receiver import Receiver

REQUESTS = 8
ICON = "icon.svg"  # of the tab: the page is there without it
BYTES = 150_000  # without charts
CHARTS = "uplot"  # in the names of files that only charts need
MANY_JOBS = 10_000
PAGE = 50  # rows
FIRST_ROWS_MS = 300
LOADS = 20  # until one is fast: others may have waited for other tests
REFRESHES = 30  # of a list, which are a minute at one in two seconds
GROWTH_BYTES = 2_000_000  # rows that a refresh leaves behind would take three times as much
PAGES = ["/", "/run", "/jobs", "/jobs/{job}", "/dead-letters", "/webhooks", "/webhooks/{webhook}", "/models"]
PAGES += ["/models/ocr", "/keys", "/files"]
# Without events: the notifier and the feed would be busy with them.
ADD_JOBS = """
INSERT INTO jobs (id, tenant_id, model, version, priority, status, attempt, max_attempts, claim, created_at, run_at,
                  started_at, finished_at, generation, timeout, initial_delay, max_delay, inference_ms, traceparent,
                  worker, tensors)
  SELECT (stamp || '70008' || substr(md5(number::text || $1::uuid::text), 1, 15))::uuid, $1::uuid, 'echo', '1',
         'normal', 'succeeded', 1, 3, 1, at, at, at, at, current_generation(), 600, 1, 300, 3, trace, 'worker',
         '\\x00000000'
  FROM (
    SELECT
      number, at,
      lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS stamp,
      '00-' || md5(number::text) || '-b7ad6b7169203331-01' AS trace
    FROM (
      SELECT number, now() - make_interval(secs => number) AS at FROM generate_series(1, $2::integer) number
    ) times
  ) named
"""
# What a page asked for before it had its first answer of the API. Streams are not among them: they have no end.
FIRST_PAINT = """() => {
  const loaded = performance.getEntriesByType("resource");
  const answers = loaded.filter((each) => each.name.includes("/v1/")).map((each) => each.responseEnd);
  const first = Math.min(...answers);
  return [document.URL, ...loaded.filter((each) => each.startTime <= first).map((each) => each.name)];
}"""
SELECT_TENANT = "SELECT tenant_id FROM jobs WHERE id = $1"


class Transfers:
    """Counts what a page loads, as it comes over the network."""

    def __init__(self, session: CDPSession) -> None:
        self.bytes: dict[str, float] = {}
        self._urls: dict[str, str] = {}
        session.on("Network.requestWillBeSent", self._begin)
        session.on("Network.responseReceived", lambda event: self._add(event, event["response"]["encodedDataLength"]))
        session.on("Network.dataReceived", lambda event: self._add(event, event["encodedDataLength"]))

    def clear(self) -> None:
        self.bytes.clear()
        self._urls.clear()

    def _begin(self, event: dict[str, Any]) -> None:
        self._urls[event["requestId"]] = event["request"]["url"]

    def _add(self, event: dict[str, Any], size: float) -> None:
        if url := self._urls.get(event["requestId"]):  # not for a page before
            self.bytes[url] = self.bytes.get(url, 0) + size


async def test_first_paint_needs_few_requests_and_bytes(console: Console, own_receiver: Receiver) -> None:
    job = await console.api.run("faulty", fault("invalid"))
    made = await console.api.http.post("/v1/webhooks", json={"url": own_receiver.inbox().url, "events": ["job.*"]})
    named = {"job": job.id, "webhook": made.json()["id"]}
    session = await console.page.context.new_cdp_session(console.page)
    await session.send("Network.enable")
    await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    transfers = Transfers(session)
    for path in PAGES:
        transfers.clear()
        console.watch.requests.clear()
        await console.open(path.format(**named))
        requests = [url for url in await console.page.evaluate(FIRST_PAINT) if not url.endswith(ICON)]
        requests += [each.url for each in console.watch.requests if "/events" in each.url]
        transferred = sum(size for url, size in transfers.bytes.items() if CHARTS not in url)
        print(f"{path}: {len(requests)} requests, {transferred:.0f} bytes")
        assert len(requests) <= REQUESTS, requests
        assert 0 < transferred < BYTES, transfers.bytes


async def test_first_rows_of_many_jobs_come_at_once(console: Console, stack: Stack) -> None:
    await fill(console, stack, MANY_JOBS)
    times = [await time_first_rows(console)]
    while len(times) < LOADS and min(times) >= FIRST_ROWS_MS:
        times.append(await time_first_rows(console))
    print(f"first rows of {MANY_JOBS} jobs: {', '.join(f'{each:.0f}' for each in times)} ms")
    assert min(times) < FIRST_ROWS_MS


async def test_memory_is_flat_while_a_list_is_live(console: Console, stack: Stack) -> None:
    await fill(console, stack, PAGE)
    await console.page.route("**/console.js", serve_in_haste)
    await console.open("/jobs", "Jobs")
    session = await console.page.context.new_cdp_session(console.page)
    await refresh(console, REFRESHES // 3)
    before = await measure_heap(session)
    await refresh(console, REFRESHES)
    after = await measure_heap(session)
    print(f"heap: {before / 1e6:.2f} MB, and {after / 1e6:.2f} MB after {REFRESHES} refreshes")
    assert after - before < GROWTH_BYTES


async def fill(console: Console, stack: Stack, count: int) -> None:
    """Give the tenant so many jobs, the newest of which ended now."""
    job = await console.api.run("echo", {"x": [[1.0]]})
    async with open_database(stack) as database:
        ((tenant,),) = await database.fetch(SELECT_TENANT, ids.parse(ids.Kind.JOB, job.id))
        await database.fetch(ADD_JOBS, tenant, count)


async def time_first_rows(console: Console) -> float:
    """Load the list, and return how long the gateway took for the first rows, in ms."""
    async with console.page.expect_response("**/v1/jobs?*") as waiting:
        await console.open("/jobs", "Jobs")
    await expect(console.page.get_by_role("row")).to_have_count(PAGE + 1)
    timing = (await waiting.value).request.timing
    return timing["responseStart"] - timing["requestStart"]


async def serve_in_haste(route: Route) -> None:
    """Serve the script with no pause between two reads. A fake clock would do, but it keeps all that waited for it."""
    script, replaced = re.subn(r"const SHORTEST_MS = [\d_]+;", "const SHORTEST_MS = 10;", read_script())
    assert replaced == 1
    await route.fulfill(body=script, content_type="text/javascript")


def read_script() -> str:
    return read_assets()["console.js"].content.decode()


async def refresh(console: Console, times: int) -> None:
    """Have the list read again so often, by an event before each."""
    for _ in range(times):
        async with console.page.expect_response("**/v1/jobs?*"):
            await console.api.submit("echo", {"x": [[1.0]]})


async def measure_heap(session: CDPSession) -> float:
    await session.send("HeapProfiler.collectGarbage")
    used: float = (await session.send("Runtime.getHeapUsage"))["usedSize"]
    return used


async def test_idle_console_asks_seldom_and_a_hidden_one_not_at_all(console: Console) -> None:
    page = console.page
    await page.clock.install()
    await console.open("/jobs", "Jobs")
    await count_requests_of_a_minute(console)  # it finds that nothing changes
    seen = await count_requests_of_a_minute(console)
    async with page.expect_event("requestfailed", lambda request: "/v1/events" in request.url):
        await set_hidden(page, hidden=True)
    hidden = await count_requests_of_a_minute(console)
    async with page.expect_request("**/v1/events?*"), page.expect_response("**/v1/jobs?*"):
        await set_hidden(page, hidden=False)
        await page.clock.fast_forward(2_000)
    print(f"requests of an idle console: {seen} a minute, {hidden} while it is hidden")
    assert seen <= 3
    assert hidden == 0


async def count_requests_of_a_minute(console: Console) -> int:
    console.watch.requests.clear()
    for _ in range(30):
        await console.page.clock.run_for(2_000)
        await expect(console.page.get_by_text("There are no jobs yet")).to_be_visible()
    return len(console.watch.requests)


async def set_hidden(page: Page, *, hidden: bool) -> None:
    """Do as a browser does when another tab is shown. Headless Chromium shows all of them."""
    await page.evaluate(
        """(hidden) => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )
