"""The gateway goes away, and comes back."""

import asyncio

from playwright.async_api import expect

from deploy.local.stack import Stack
from tests.acceptance.console.conftest import Console


async def test_page_says_that_the_gateway_is_away_and_goes_on_when_it_is_back(
    breakable: Stack, console: Console
) -> None:
    console.watch.allow("net::ERR|503")  # it answers 503 just before it ends, and while it starts
    page, gateway = console.page, breakable.gateways[0]
    await page.clock.install()
    await console.open("/jobs", "Jobs")
    await asyncio.to_thread(gateway.stop)
    await page.clock.fast_forward(20_000)
    await expect(page.get_by_role("alert")).to_contain_text("The gateway does not answer")
    await asyncio.to_thread(gateway.start)
    job = await console.api.submit("echo", {"x": [[1.0]]})
    await page.clock.fast_forward(60_000)
    await expect(page.get_by_role("link", name=job.id)).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(page.get_by_role("row").filter(has_text="succeeded")).to_be_visible()


async def test_page_without_live_parts_tries_again(console: Console) -> None:
    console.watch.allow("503")
    page = console.page
    await page.clock.install()
    await page.route("**/v1/keys**", lambda route: route.fulfill(status=503, json={"detail": "no database"}))
    await console.open("/keys", "Keys")
    await expect(page.get_by_role("alert")).to_contain_text("no database")
    await page.unroute("**/v1/keys**")
    await page.clock.fast_forward(6_000)
    await expect(page.get_by_role("table")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_overview_says_once_that_nothing_answers(console: Console) -> None:
    console.watch.allow("503")
    page = console.page
    await page.clock.install()
    await console.open("/", "Overview")
    await expect(page.locator("svg.hour.done rect").first).to_be_attached()
    await page.route("**/v1/**", lambda route: route.fulfill(status=503, json={"detail": "no database"}))
    for _ in range(4):  # each part of the page fails at a time of its own
        await page.clock.fast_forward(30_000)
        await expect(page.get_by_role("alert")).to_contain_text("no database")
    await expect(page.get_by_role("alert")).to_have_count(1)
