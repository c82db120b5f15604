"""Somebody new does four tasks. They follow only what they can read, and each test prints how long its task takes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from playwright.async_api import Locator, expect

from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.acceptance.console.conftest import Console, open_database
from tests.support.api.model_inputs import LINES, fault, work
from tests.support.database.backlog import parse_endpoint_id
from tests.support.receivers.webhook_receiver import Receiver

IMAGE = ROOT / "deploy" / "local" / "demo.png"
ONCE = {"max_attempts": 1}
MAKE_OLDER = """
UPDATE deliveries SET created_at = created_at - interval '1 day', finished_at = finished_at - interval '1 day'
WHERE endpoint_id = $1
"""


@contextmanager
def timed(task: str) -> Iterator[None]:
    """Print how long a task takes. `pytest -rP` shows it."""
    began = time.monotonic()
    yield
    print(f"{task}: {time.monotonic() - began:.1f} s")


async def test_run_ocr_on_an_image(overview: Console) -> None:
    page = overview.page
    with timed("run OCR on an image"):
        await overview.follow("Run")
        await page.get_by_label("Model").select_option("ocr")
        await page.get_by_label("image", exact=True).set_input_files(IMAGE)
        await expect(page.get_by_role("img", name="demo.png")).to_be_visible()  # the preview
        await page.get_by_role("button", name="Run", exact=True).click()
        result = page.get_by_role("region", name="Result")
        for line in LINES:
            await expect(result.get_by_role("listitem").filter(has_text=line)).to_be_visible()
    boxes = result.get_by_role("img", name=f"{len(LINES)} boxes on the input image")
    await expect(boxes).to_be_visible()
    assert await boxes.locator("polygon title").all_text_contents() == LINES
    await expect(result.get_by_text("succeeded")).to_be_visible()


async def test_find_out_why_a_job_waits_and_cancel_it(overview: Console) -> None:
    page = overview.page
    job = await overview.api.submit("work", work(1), run_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    with timed("find out why a job waits"):
        await overview.follow("Jobs")
        await page.get_by_label("Status").select_option("queued")
        await page.get_by_role("link", name=job.id).click()
        summary = page.get_by_role("region", name="Summary")
        await expect(summary).to_contain_text("scheduled for")
    await expect(summary.get_by_text("queued", exact=True)).to_be_visible()
    await overview.confirm("Cancel")
    await expect(summary.get_by_text("canceled", exact=True)).to_be_visible()


async def test_send_the_failed_deliveries_of_yesterday_again(
    overview: Console, stack: Stack, own_receiver: Receiver
) -> None:
    page, inbox, other = overview.page, own_receiver.inbox(), own_receiver.inbox()
    webhook = await fail_deliveries(overview, stack, own_receiver, inbox.url)
    await overview.api.http.post("/v1/webhooks", json={"url": other.url, "events": ["job.succeeded"]})
    assert webhook
    with timed("send yesterday's failed deliveries of one endpoint again"):
        await overview.follow("Webhooks")
        await page.get_by_role("link", name=inbox.url).click()
        await page.get_by_label("Status").select_option("failed (exhausted)")
        await page.get_by_label("Day").select_option("Yesterday")
        failed = page.get_by_role("listitem").filter(has_text="job.succeeded")
        await expect(failed).to_have_count(2)
        for _ in range(2):
            await send_first_again(overview, failed)
        await expect(page.get_by_text("No delivery matches the filter")).to_be_visible()
    assert len(await inbox.wait(2)) == 2
    assert other.deliveries == []


async def fail_deliveries(console: Console, stack: Stack, receiver: Receiver, url: str) -> str:
    """Make a subscription with two deliveries that failed yesterday, and return its id."""
    receiver.close()
    made = await console.api.http.post("/v1/webhooks", json={"url": url, "events": ["job.succeeded"]})
    webhook: str = made.json()["id"]
    for _ in range(2):
        await console.api.run("echo", {"x": [[1.0]]})
    for each in await console.api.list_all_deliveries(f"/v1/webhooks/{webhook}"):
        await console.api.wait_for_delivery(each.id, "exhausted")
    async with open_database(stack) as database:
        await database.fetch(MAKE_OLDER, parse_endpoint_id(webhook))
    receiver.open()
    return webhook


async def send_first_again(console: Console, failed: Locator) -> None:
    before = await failed.count()
    await failed.first.get_by_text("job.succeeded").click()
    await console.confirm("Send again", failed.first)
    await expect(failed).to_have_count(before - 1)


async def test_replay_a_class_of_dead_letters_on_another_model(overview: Console) -> None:
    page = overview.page
    dead = []
    for _ in range(3):
        dead.append(await overview.api.run("work", work(2_000), timeout=1, retry=ONCE))
        await overview.api.run("work", work(1))  # two timeouts in a row would open its circuit
    assert [job.status for job in dead] == ["failed"] * 3
    other = await overview.api.run("faulty", fault("invalid"), retry=ONCE)
    with timed("replay a class of dead letters on another model"):
        await overview.follow("Dead letters")
        await page.get_by_role("link", name="timeout of work").click()
        await page.get_by_role("button", name="Replay all that match").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Model").select_option("work_small")
        await dialog.get_by_role("button", name="Replay all that match").click()
        await expect(page.get_by_text("3 jobs replayed")).to_be_visible()
    for job in dead:
        assert (await overview.api.wait(job.id)).model == "work_small"  # whose queue is full with one request
    assert (await overview.api.get(other.id)).status == "failed"
