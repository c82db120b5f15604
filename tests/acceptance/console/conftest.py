"""A browser for all tests of the console, and for each test a tenant that has nothing yet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect

from common.postgres.database import Database
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.tenants import make_tenant
from tests.support.browser import PageWatch, open_browser
from tests.support.stacks.example_tenant import stop_waiting

WAIT_MS = 45_000  # less than a minute, after which all numbers are read again
BLANK = '<!DOCTYPE html><link rel="icon" href="data:,">'
WIDE = ViewportSize(width=1200, height=800)


@dataclass(frozen=True)
class Console:
    """A page that is signed in, and a client of the same tenant."""

    page: Page
    watch: PageWatch
    api: Api
    key: str
    root: str

    async def open(self, path: str, heading: str = "") -> None:
        """Go to a page, and wait until its heading is there."""
        await self.page.goto(self.root + path)
        await expect(self.page.get_by_role("heading", level=1, name=heading)).to_be_visible()
        await expect(self.page.get_by_text("Loading …")).to_have_count(0)

    async def follow(self, name: str) -> None:
        """Go to a page by its link in the menu."""
        await self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True).click()

    async def confirm(self, button: str, within: Locator | None = None) -> None:
        """Press a button that asks, and say yes."""
        await (within or self.page).get_by_role("button", name=button, exact=True).click()
        await self.page.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()
        await expect(self.page.get_by_role("dialog")).to_be_hidden()


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    async with open_browser() as browser:
        yield browser


@pytest.fixture
async def tenant_key(stack: Stack) -> str:
    """The key of a tenant of this test."""
    return await make_tenant(stack, "console")


@pytest.fixture
async def signed_out(stack: Stack, browser: Browser, tenant_key: str) -> AsyncIterator[Console]:
    """The console before somebody has signed in."""
    async with open_console(stack, browser, tenant_key) as console:
        yield console
        if (await console.api.http.get("/v1/models")).is_success:  # the key is not revoked
            await stop_waiting(console.api)  # what a failed test left would hold a model for later ones


@pytest.fixture
async def console(stack: Stack, signed_out: Console) -> Console:
    """The console after somebody has signed in, before a page of it is open."""
    page, url = signed_out.page, f"{stack.url}/blank"
    await page.route(url, lambda route: route.fulfill(body=BLANK, content_type="text/html"))
    await page.goto(url)
    await page.unroute(url)  # Chromium caches nothing while there is a route
    await page.evaluate("(key) => sessionStorage.setItem('charonia.key', key)", signed_out.key)
    return signed_out


@pytest.fixture
async def overview(console: Console) -> Console:
    """The console with its first page open."""
    await console.open("/", "Overview")
    return console


@asynccontextmanager
async def open_console(stack: Stack, browser: Browser, key: str) -> AsyncIterator[Console]:
    """Open a tab of its own. It may cause no error, and may call no other origin."""
    context = await browser.new_context(viewport=WIDE)
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    watch = PageWatch(page, stack.url)
    try:
        async with open_client(stack, key) as api:
            yield Console(page, watch, api, key, f"{stack.url}/console")
    finally:
        await context.close()
    assert watch.complaints == []


@asynccontextmanager
async def open_database(stack: Stack) -> AsyncIterator[Database]:
    database = await Database.connect(stack.postgres.url, application="tests")
    try:
        yield database
    finally:
        await database.close()


async def sign_in(page: Page, root: str, key: str) -> None:
    """Sign in as people do."""
    await page.goto(root)
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
