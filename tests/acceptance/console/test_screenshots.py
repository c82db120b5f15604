"""The pictures of the docs show the console as it is. `make screenshots` takes them again.

Beside each picture is what a screen reader would read of the page, without ids, times and other numbers. The test
compares that, because pixels depend on the fonts of a machine.
"""

import contextlib
import difflib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from playwright.async_api import Page, ViewportSize, expect

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import LINES, picture
from tests.support.api.page_pipeline import DEFINITION
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.example_tenant import Example, make_example, stop_waiting
from tests.support.waiting import eventually

FOLDER = ROOT / "docs" / "images"
UPDATE = os.environ.get("UPDATE_SCREENSHOTS") == "1"
COMMAND = "make screenshots"
WIDTH, MOST_HIGH = 1000, 880
HEIGHTS = {"console-run": 570, "console-job": 1300, "console-pipeline": 1050}  # below the texts, webhooks and steps
MOST_BYTES = 150_000
SECONDS = 60.0  # for a page to read everything again, however old the counts are that the gateway repeats
IMAGE = ROOT / "deploy" / "local" / "demo.png"
SIGNATURE = b"\x89PNG\r\n\x1a\n"

MASKS = (
    (re.compile(r"\b(job|whk|dlv|key|file|batch)_[0-9a-z]{26}\b"), r"\1_…"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "…"),
    (re.compile(r"\bworker-[0-9a-f]+"), "worker-…"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?"), "TIME"),
    (re.compile(r"(\d[\d.]* (ms|s|min|h|d)\b ?)+ago|\b(now|at \d\d:\d\d)\b"), "AGO"),
    (re.compile(r"\d[\d.]* (ms|s|min|h|d)\b( \d+ (s|min|h)\b)?"), "SPAN"),
    (re.compile(r"(?<!level=)\d+([.,]\d+)*"), "0"),
)
HIDE_ADDRESS = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    walker.currentNode.data = walker.currentNode.data.replace(/http:..127.0.0.1:\\d+.hooks.\\d+/, "https://shop.example.com/hook");
})()"""

Show = Callable[[Console, Example], Awaitable[None]]


async def show_overview(console: Console, _example: Example) -> None:
    await console.open("/", "Overview")
    busy = console.page.get_by_role("row", name=re.compile("^work normal"))
    await expect(busy.get_by_role("cell").nth(4)).not_to_have_text("0")  # of those that run
    await expect(console.page.get_by_role("region", name="In trouble")).to_be_visible()


async def show_run(console: Console, _example: Example) -> None:
    page = console.page
    await console.open("/run?model=ocr", "Run a model")
    await page.get_by_label("image", exact=True).set_input_files(IMAGE)
    await page.get_by_role("button", name="Run", exact=True).click()
    result = page.get_by_role("region", name="Result")
    await expect(result.get_by_role("listitem").filter(has_text=LINES[-1])).to_be_visible()
    await expect(result.get_by_text("succeeded")).to_be_visible()


async def show_job(console: Console, example: Example) -> None:
    await console.open(f"/jobs/{example.job.id}", "Job")
    history = console.page.get_by_role("region", name="History")
    for text in ("Submitted", "delivered"):
        await expect(history.get_by_role("listitem").filter(has_text=text)).to_be_visible()
    await expect(console.page.get_by_role("region", name="Outputs").get_by_text("ok")).to_be_visible()


async def show_pipeline(console: Console, _example: Example) -> None:
    (await console.api.http.put("/v1/pipelines/read-page", json=DEFINITION)).raise_for_status()
    run = await console.api.run("read-page", picture())
    await console.api.wait_for_webhooks(run.id)
    await console.open(f"/jobs/{run.id}", "Job")
    await expect(console.page.get_by_role("region", name="History").get_by_text("Step page succeeded")).to_be_visible()
    await expect(console.page.get_by_role("img", name="image", exact=True)).to_be_visible()


async def show_webhook(console: Console, example: Example) -> None:
    await console.open(f"/webhooks/{example.webhook}", "http")
    await console.page.locator("summary").filter(has_text="3 attempts").click()
    await expect(console.page.get_by_label("Body of the request")).to_be_visible()
    await expect(console.page.get_by_role("button", name="Send again")).to_be_visible()


async def show_dead_letters(console: Console, _example: Example) -> None:
    await console.open("/dead-letters", "Dead letters")
    await expect(console.page.get_by_role("row").nth(8)).to_be_visible()


PICTURES: dict[str, Show] = {
    "console-overview": show_overview,
    "console-run": show_run,
    "console-job": show_job,
    "console-webhook": show_webhook,
    "console-dead-letters": show_dead_letters,
    "console-pipeline": show_pipeline,  # the last one, so that the others do not list the pipeline
}


@pytest.fixture
async def example(stack: Stack, console: Console, own_receiver: Receiver) -> AsyncIterator[Example]:
    yield await make_example(stack, console.api, own_receiver)
    await stop_waiting(console.api)


async def test_pictures_of_the_docs_show_the_console_as_it_is(console: Console, example: Example) -> None:
    outdated = []
    for name, show in PICTURES.items():
        await show(console, example)
        await fit_window(console.page, HEIGHTS.get(name, MOST_HIGH))
        path = FOLDER / f"{name}.txt"
        if UPDATE:
            path.write_text(await read_page(console.page))
            await console.page.screenshot(path=path.with_suffix(".png"))
        elif difference := await compare(console.page, path.read_text()):
            outdated.append(f"{name}:\n{difference}")
    text = f"the pages have changed; run `{COMMAND}`, and look at the pictures before you commit them"
    assert outdated == [], "\n".join([text, *outdated])


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_small(name: str) -> None:
    content = (FOLDER / f"{name}.png").read_bytes()
    assert content.startswith(SIGNATURE)
    assert int.from_bytes(content[16:20], "big") <= 1200
    assert len(content) <= MOST_BYTES


async def compare(page: Page, expected: str) -> str:
    """Return how the page differs, once it has had time to read everything that it shows."""
    text = ""

    async def is_as_expected() -> bool:
        nonlocal text
        text = await read_page(page)
        return text == expected

    with contextlib.suppress(AssertionError):
        await eventually(is_as_expected, "the page is as its picture", SECONDS)
    return "\n".join(difflib.unified_diff(expected.splitlines(), text.splitlines(), lineterm="", n=1))


async def fit_window(page: Page, most_high: int) -> None:
    """Make the window as high as the page."""
    await page.set_viewport_size(ViewportSize(width=WIDTH, height=400))
    height = min(most_high, await page.evaluate("document.documentElement.scrollHeight"))
    await page.set_viewport_size(ViewportSize(width=WIDTH, height=height))


async def read_page(page: Page) -> str:
    """Hide the receiver's address, and return what the page says."""
    await page.evaluate(HIDE_ADDRESS)
    text = await page.locator("body").aria_snapshot()
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text + "\n"
