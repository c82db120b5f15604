"""Debian's headless Chromium, driven by Playwright, and a watch over what its pages do."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
# No sandbox, because tests may run as root. The rest keeps Chromium from calling its maker.
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--js-flags=--expose-gc"]
LOCAL = ("blob:", "data:", "about:")


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Start Chromium with a new empty profile."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


class PageWatch:
    """Keeps what may not happen on a page: errors in its console, exceptions, and requests to another origin."""

    def __init__(self, page: Page, origin: str) -> None:
        self._origin = origin
        self._allowed: list[str] = []
        self._found: list[str] = []
        self.requests: list[Request] = []
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self._found.append(f"exception: {error}"))
        page.on("request", self._note_request)

    def allow(self, pattern: str) -> None:
        """Expect messages that match a pattern: Chromium itself reports each response that is an error."""
        self._allowed.append(pattern)

    @property
    def complaints(self) -> list[str]:
        """What happened although no test expected it."""
        return [text for text in self._found if not any(re.search(pattern, text) for pattern in self._allowed)]

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._found.append(f"console: {message.text}")

    def _note_request(self, request: Request) -> None:
        self.requests.append(request)
        if not request.url.startswith((f"{self._origin}/", *LOCAL)):
            self._found.append(f"another origin: {request.url}")
