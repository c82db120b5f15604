"""Every page can be read by everybody: WCAG AA in both themes, and a screen of 360 pixels, with rows and without."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from deploy.local.stack import Stack
from tests.acceptance.console.conftest import Console, open_console, sign_in
from tests.support.api.model_inputs import fault, picture, work
from tests.support.api.page_pipeline import DEFINITION
from tests.support.api.tenants import make_tenant
from tests.support.receivers.webhook_receiver import Receiver

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
RUN_AXE = """async (rules) => (await axe.run(document, {...%s, ...rules})).violations.flatMap(
  (each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`))"""
# By default it also describes what is well, and fetches style sheets for rules that are off.
RUN_AXE %= '{resultTypes: ["violations"], preload: {assets: ["media"]}}'
GO = "(address) => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')); }"
NOWHERE = "/nothing"
FIND_WIDE = """() => [...document.querySelectorAll("body *")].filter((each) =>
  each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".scroll, pre, dialog"))
  .map((each) => each.outerHTML.slice(0, 100))"""
FIND_OVERFULL = """() => [...document.querySelectorAll("form, dialog")].filter((each) =>
  each.scrollWidth > each.clientWidth).map((each) => each.outerHTML.slice(0, 100))"""
WIDE, NARROW = ViewportSize(width=1200, height=800), ViewportSize(width=360, height=740)
LONG = "a-long-name-without-any-space-" * 3
ONCE = {"max_attempts": 1}
PAGES = ["/", "/run?model=ocr", "/jobs", "/dead-letters", "/webhooks", "/models", "/models/ocr", "/keys", "/files"]
PAGES += ["/pipelines", "/pipelines/page", "/models/page"]
DETAILS = ["/jobs/{failed}", "/jobs/{read}", "/jobs/{waiting}", "/webhooks/{webhook}"]
DETAILS += ["/jobs/{run}", "/jobs?parent={run}&step=lines"]
RULES: dict[Literal["light", "dark"], dict[str, list[str]]] = {  # only those of colors see a theme
    "light": {},
    "dark": {"runOnly": ["color-contrast", "link-in-text-block"]},
}


@pytest.fixture(scope="module")
async def furnished(
    stack: Stack, browser: Browser, receiver: Receiver
) -> AsyncIterator[tuple[Console, dict[str, str]]]:
    """The console of a tenant that has some of everything, and the ids of it."""
    async with open_signed_in(stack, browser) as console:
        yield console, await furnish(console, receiver)


@pytest.fixture(scope="module")
async def bare(stack: Stack, browser: Browser) -> AsyncIterator[Console]:
    """The console of a tenant that has nothing."""
    async with open_signed_in(stack, browser) as console:
        yield console


@asynccontextmanager
async def open_signed_in(stack: Stack, browser: Browser) -> AsyncIterator[Console]:
    async with open_console(stack, browser, await make_tenant(stack, "console-pages")) as console:
        await sign_in(console.page, console.root, console.key)
        yield console


async def furnish(console: Console, receiver: Receiver) -> dict[str, str]:
    http = console.api.http
    hook = {"url": receiver.inbox().url + "?" + LONG, "events": ["job.*"], "models": [LONG, "ocr", "faulty"]}
    webhook = (await http.post("/v1/webhooks", json=hook)).json()["id"]
    failed = await console.api.run("faulty", fault("invalid"), retry=ONCE, metadata={"order": LONG})
    read = await console.api.run("ocr", picture())
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    waiting = await console.api.submit("work", work(1), run_at=tomorrow)
    await http.post("/v1/files", content=b"content", headers={"content-type": f"text/{LONG}"})
    await http.post("/v1/keys", json={"name": LONG, "scopes": ["read"]})
    (await http.put("/v1/pipelines/page", json=DEFINITION)).raise_for_status()
    run = await console.api.run("page", picture())
    for job in (failed, read):
        await console.api.wait_for_webhooks(job.id)
    return {"webhook": webhook, "failed": failed.id, "read": read.id, "waiting": waiting.id, "run": run.id}


@pytest.mark.parametrize("path", [*PAGES, *DETAILS])
async def test_page_with_rows(furnished: tuple[Console, dict[str, str]], path: str) -> None:
    console, ids = furnished
    await visit(console, path.format(**ids))
    for summary in await console.page.locator("details > summary").all():
        await summary.click()
    await check(console.page)


@pytest.mark.parametrize("path", ["/", "/jobs", "/dead-letters", "/webhooks", "/pipelines", "/files"])
async def test_page_without_rows(bare: Console, path: str) -> None:
    await visit(bare, path)
    await check(bare.page)


async def test_page_that_does_not_exist(bare: Console) -> None:
    await bare.open(NOWHERE)
    await check(bare.page)


@pytest.mark.parametrize("button", ["New key", "Revoke"])
async def test_dialog(bare: Console, button: str) -> None:
    await bare.open("/keys")
    await bare.page.get_by_role("button", name=button).click()
    await expect(bare.page.get_by_role("dialog")).to_be_visible()
    await check(bare.page)


async def test_form_with_headers(bare: Console) -> None:
    await bare.open("/webhooks")
    await bare.page.get_by_role("button", name="New subscription").click()
    await expect(bare.page.get_by_role("dialog")).to_be_visible()
    await bare.page.get_by_role("button", name="Add a header").click()
    await check(bare.page)


async def test_form_with_faults(bare: Console) -> None:
    bare.watch.allow("422")
    await bare.open("/pipelines")
    await bare.page.get_by_role("button", name="New pipeline").click()
    dialog = bare.page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("page")
    await dialog.get_by_label("Definition").fill(json.dumps(DEFINITION | {"steps": {}}))
    await dialog.get_by_role("button", name="Check").click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await check(bare.page)


async def test_sign_in(signed_out: Console) -> None:
    await signed_out.page.goto(signed_out.root)
    await expect(signed_out.page.get_by_label("API key")).to_be_visible()
    await check(signed_out.page)


async def visit(console: Console, path: str) -> None:
    """Go to a page as by a link. To load the console and axe again would take half of the test."""
    heading = console.page.get_by_role("heading", level=1)
    elsewhere = heading.filter(has_text="There is no such page")
    await console.page.evaluate(GO, console.root + NOWHERE)
    await expect(elsewhere).to_be_visible()
    await console.page.evaluate(GO, console.root + path)
    await expect(elsewhere).to_be_hidden()
    await expect(heading).to_be_visible()
    await expect(console.page.get_by_text("Loading …")).to_have_count(0)


async def check(page: Page) -> None:
    found: list[str] = []
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE)
    for theme, rules in RULES.items():
        await page.emulate_media(color_scheme=theme)
        violations: list[Any] = await page.evaluate(RUN_AXE, rules)
        found += [f"{theme}: {each}" for each in violations]
    await page.set_viewport_size(NARROW)
    width: int = await page.evaluate("document.documentElement.scrollWidth")
    wide: list[str] = await page.evaluate(FIND_WIDE) if width > NARROW["width"] else []
    overfull: list[str] = await page.evaluate(FIND_OVERFULL)
    await page.set_viewport_size(WIDE)
    overfull += await page.evaluate(FIND_OVERFULL)
    assert found == []
    assert overfull == []
    assert (width, wide) == (NARROW["width"], [])
