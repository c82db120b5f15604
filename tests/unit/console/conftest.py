"""The console's modules, as a browser loads them from files."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.async_api import Page, Route

from console.assets import FOLDER
from tests.support.browser import open_browser

ORIGIN = "http://console.test"
CALL = """async ([file, name, args]) => {
  const module = await import(`/scripts/${file}`);
  return module[name](...args);
}"""


class CallJs(Protocol):
    async def __call__(self, file: str, name: str, *args: object) -> Any:
        """Call a function of a module of the console."""


@pytest.fixture(scope="session")
async def modules() -> AsyncIterator[Page]:
    """A page that can import the modules. Nothing is served."""
    async with open_browser() as browser:
        page = await browser.new_page(timezone_id="Europe/Berlin")
        await page.route(f"{ORIGIN}/**", serve_file)
        await page.goto(f"{ORIGIN}/")
        yield page


@pytest.fixture
def call_js(modules: Page) -> CallJs:
    async def call(file: str, name: str, *args: object) -> Any:
        return await modules.evaluate(CALL, [file, name, list(args)])

    return call


async def serve_file(route: Route) -> None:
    path = Path(route.request.url.removeprefix(ORIGIN).lstrip("/"))
    if path == Path():
        await route.fulfill(body="<!DOCTYPE html>", content_type="text/html")
    else:
        await route.fulfill(body=await asyncio.to_thread((FOLDER / path).read_bytes), content_type="text/javascript")
