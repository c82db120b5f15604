"""The console talks with models."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from deploy.local.stack import Stack
from tests.acceptance.console.conftest import WAIT_MS, Console, open_console, sign_in
from tests.acceptance.console.test_every_page import check
from tests.support.api.tenants import make_tenant
from tests.support.browser import open_browser
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

SLOW = "$slow" + " word" * 100


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    async with open_browser() as browser:
        yield browser


@pytest.fixture
async def console(stack: Stack, browser: Browser) -> AsyncIterator[Console]:
    async with open_console(stack, browser, await make_tenant(stack, "chat")) as console:
        await sign_in(console.page, console.root, console.key)
        yield console


async def say(console: Console, text: str) -> None:
    await console.page.get_by_role("textbox", name="Message").fill(text)
    await console.page.get_by_role("button", name="Send").click()


async def test_a_conversation_with_its_jobs(console: Console) -> None:
    page = console.page
    await console.follow("Chat")
    await page.get_by_label("Model").select_option("messages_model")
    await expect(page.get_by_role("option", name="embeddings_model")).to_have_count(0)
    await say(console, "one two")
    turns = page.get_by_role("list", name="Conversation").get_by_role("listitem")
    await expect(turns.nth(1)).to_contain_text("one two")
    await expect(turns.nth(1)).to_contain_text("2 + 2 tokens")
    await page.get_by_text("Settings").click()
    await page.get_by_label("How to answer").fill("be brief")
    await page.get_by_role("textbox", name="Message").fill("$request")
    await page.get_by_role("textbox", name="Message").press("Enter")
    for text in ("be brief", "one two", "$request"):
        await expect(turns.nth(3)).to_contain_text(text)
    await check(page)
    await turns.nth(1).get_by_role("link", name="Open the job").click()
    await expect(page.get_by_role("heading", level=1, name="Job")).to_be_visible()


async def test_stop_cancels_the_job_and_the_conversation_goes_on(console: Console) -> None:
    page = console.page
    await console.open("/chat?model=vllm_model", "Chat")
    await say(console, SLOW)
    turns = page.get_by_role("list", name="Conversation").get_by_role("listitem")
    await expect(turns.nth(1)).to_contain_text("word word")
    await page.get_by_role("button", name="Stop").click()
    await expect(turns.nth(1)).to_contain_text("stopped; the job is canceled")
    link = await turns.nth(1).get_by_role("link", name="Open the job").get_attribute("href")
    assert link is not None

    async def is_canceled() -> bool:
        return (await console.api.get(link.rpartition("/")[2])).status == "canceled"

    await eventually(is_canceled, "the job is canceled")
    await page.get_by_role("button", name="New conversation").click()
    await expect(turns).to_have_count(0)


async def test_a_failure_is_shown_with_its_job(console: Console) -> None:
    await console.open("/chat?model=vllm_model", "Chat")
    await say(console, "$fail one two")
    turn = console.page.get_by_role("list", name="Conversation").get_by_role("listitem").nth(1)
    await expect(turn.get_by_role("alert")).to_be_visible()
    await expect(turn.get_by_role("link", name="Open the job")).to_be_visible()
    await check(console.page)


async def test_a_refusal_is_shown(console: Console) -> None:
    console.watch.allow("400")
    await console.open("/chat?model=vllm_model", "Chat")
    await console.page.get_by_text("Settings").click()
    await console.page.get_by_label("At most so many tokens").fill("99999999999")
    await say(console, "hi")
    turn = console.page.get_by_role("list", name="Conversation").get_by_role("listitem").nth(1)
    await expect(turn.get_by_role("alert")).to_contain_text("max_completion_tokens")


async def test_the_format_of_a_webhook_is_chosen_when_it_is_made(console: Console, receiver: Receiver) -> None:
    page = console.page
    await console.open("/webhooks", "Webhooks")
    await page.get_by_role("button", name="New subscription").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("In the words of").select_option("openai")
    await expect(dialog.get_by_label("Events, separated")).to_have_value("response.*, batch.*")
    await check(page)
    await dialog.get_by_label("URL").fill(receiver.inbox().url)
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("region", name="Subscription").get_by_text("OpenAI's API")).to_be_visible()
    (made,) = (await console.api.http.get("/v1/webhooks")).json()["items"]
    assert (made["format"], made["events"]) == ("openai", ["response.*", "batch.*"])
