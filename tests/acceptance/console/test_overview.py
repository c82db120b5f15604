"""The overview shows what happens now and happened in the last hour, and leads to it."""

import re
from datetime import UTC, datetime, timedelta

from playwright.async_api import Locator, Page, Route, expect

from tests.acceptance.console.conftest import Console
from tests.support.api.api_client import Api, Job, read
from tests.support.api.model_inputs import fault, work
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

FIRST_PAINT = 8  # requests
FAILURES_TO_OPEN = 20  # a circuit, in a row
ECHO = {"x": [[1.0]]}
ONCE = {"max_attempts": 1}
LATER_MS = 15_000  # the charts are read again ten seconds after an event, and each minute
LIST_REQUESTS = """() => performance.getEntriesByType("resource")
  .toSorted((one, other) => one.startTime - other.startTime).map((each) => each.name)"""


def find_tile(page: Page, title: str) -> Locator:
    return page.get_by_role("main").get_by_role("link", name=re.compile(f"^{title}"))


async def test_overview_without_jobs_needs_few_requests_and_says_how_to_run_one(overview: Console) -> None:
    page = overview.page
    await expect(page.locator("svg.hour")).to_have_count(4)
    await expect(page.locator("svg.hour.done rect").first).to_be_attached()
    urls = [overview.root, *await page.evaluate(LIST_REQUESTS)]
    charts = next(place for place, url in enumerate(urls) if url.endswith("/v1/stats/minutes"))
    assert charts <= FIRST_PAINT, urls
    for title in ("Waiting", "Running", "Ended a minute", "Failed a minute"):
        await expect(find_tile(page, title)).to_contain_text(re.compile("0.*none"))
    await expect(find_tile(page, "Dead letters")).to_contain_text("0")
    await expect(page.get_by_role("region", name="In trouble")).to_have_count(0)
    await page.get_by_role("link", name="Run a model").click()
    await expect(page.get_by_role("heading", level=1, name="Run")).to_be_visible()


async def test_numbers_follow_the_jobs_and_lead_to_their_lists(overview: Console) -> None:
    page, api = overview.page, overview.api
    await expect(find_tile(page, "Ended a minute")).to_contain_text("none")
    await api.run("faulty", fault("invalid"), retry=ONCE)
    running = await api.submit("work", work(600_000))
    waiting = await api.submit("echo", ECHO, run_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    await expect(find_tile(page, "Ended a minute")).to_contain_text("at most 1, at")
    await expect(page.locator("svg.hour.failed title").filter(has_text=re.compile(": 1$"))).to_have_count(1)
    await expect(find_tile(page, "Running")).to_contain_text(re.compile("Running1jobs now"))
    await expect(find_tile(page, "Waiting")).to_contain_text("1 scheduled")
    await expect(find_tile(page, "Dead letters")).to_contain_text("1")
    for job in (waiting, running):
        read(await api.http.post(f"/v1/jobs/{job.id}/cancel"), 202, Job)
    assert (await api.wait(running.id)).status == "canceled"
    await expect(find_tile(page, "Running")).to_contain_text(re.compile("Running0jobs now"))
    await find_tile(page, "Failed a minute").click()
    await expect(page).to_have_url(re.compile(r"/console/jobs\?status=failed&period=1h$"))
    await expect(page.get_by_role("cell", name="faulty")).to_be_visible()


async def test_charts_that_were_older_than_an_event_are_read_again(console: Console) -> None:
    """The gateway counts rarely under load, so what it answers may not have the job of the event yet."""
    page = console.page
    await page.clock.install()
    await console.open("/", "Overview")
    await expect(page.locator("svg.hour.done rect").first).to_be_attached()
    old = (await console.api.http.get("/v1/stats/minutes")).text
    reads = 0

    async def answer(route: Route) -> None:
        nonlocal reads
        reads += 1
        await route.fulfill(body=old, content_type="application/json")

    async def is_read() -> bool:
        return reads > 0

    await page.route("**/v1/stats/minutes", answer)
    await console.api.run("faulty", fault("invalid"), retry=ONCE)
    await eventually(is_read, "the charts are read for the event")
    await page.unroute("**/v1/stats/minutes")
    await page.clock.fast_forward(LATER_MS)
    await expect(find_tile(page, "Ended a minute")).to_contain_text("at most 1, at")


async def test_webhooks_in_trouble_are_named_unless_somebody_disabled_them(
    overview: Console, receiver: Receiver
) -> None:
    page, api = overview.page, overview.api
    gone, failing = receiver.inbox(410), receiver.inbox(*[500] * 2 * FAILURES_TO_OPEN)
    tile, region = find_tile(page, "Webhooks in trouble"), page.get_by_role("region", name="In trouble")
    await expect(tile).to_contain_text("0 of 0")
    async with (
        api.subscribed(receiver.inbox().url, events=["job.started"]) as off,
        api.subscribed(gone.url, events=["job.succeeded"]),
    ):
        await api.http.post(f"/v1/webhooks/{off.id}/disable")
        await api.run("echo", ECHO)
        await expect(tile).to_contain_text("1 of 2")
        disabled = region.get_by_role("listitem").filter(has_text=gone.url)
        await expect(disabled).to_contain_text("The receiver answered 410")
        await disabled.get_by_role("link").click()
        await expect(page.get_by_role("heading", level=1, name=gone.url)).to_be_visible()
        async with api.subscribed(failing.url, events=["job.succeeded"]) as webhook:
            await open_circuit(api, webhook.id)
            await overview.open("", "Overview")
            await expect(tile).to_contain_text("2 of 3")
            await expect(region.get_by_role("listitem").filter(has_text=failing.url)).to_contain_text("circuit open")
            await tile.click()
            await expect(page).to_have_url(re.compile(r"/console/webhooks\?state=trouble$"))
            await expect(page.get_by_role("link", name="In trouble 2")).to_be_visible()


async def open_circuit(api: Api, webhook: str) -> None:
    """Have the attempts of a subscription fail until its circuit opens."""
    for job in [await api.submit("echo", ECHO) for _ in range(8)]:
        await api.wait(job.id)

    async def is_open() -> bool:
        health = (await api.http.get(f"/v1/webhooks/{webhook}/health")).json()
        return bool(health["circuit"] == "open")

    await eventually(is_open, "the circuit is open")
