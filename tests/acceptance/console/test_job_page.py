"""What went into a job and came out of it, why it waits, and what can be done with it."""

import base64
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import pytest
from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.input_files import upload_file
from tests.support.api.model_inputs import IMAGE, LINES, fault
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

ONCE = {"max_attempts": 1}
READS = """
id => performance.getEntriesByType("resource").filter((each) => each.name.endsWith(id)).map((each) => each.startTime)
"""


@pytest.mark.parametrize("kind", ["inline", "file"])
async def test_boxes_are_drawn_over_the_image_that_was_sent(console: Console, kind: str) -> None:
    image = {"base64": base64.b64encode(IMAGE).decode()}
    inputs = {"image": {"file": await upload_file(console.api, IMAGE)} if kind == "file" else image}
    job = await console.api.run("ocr", inputs)
    await console.open(f"/jobs/{job.id}")
    shown = console.page.get_by_role("region", name="Inputs", exact=True)
    await expect(shown.get_by_role("img", name="image", exact=True)).to_be_visible()
    await expect(shown.get_by_role("img", name=f"{len(LINES)} boxes on image")).to_be_visible()
    await expect(shown.get_by_role("link", name="Download the file")).to_have_count(0 if kind == "inline" else 1)


async def test_numbers_are_a_table_and_many_of_them_are_cut(console: Console) -> None:
    job = await console.api.run("echo", {"x": [[float(value) for value in range(10_000)]]})
    await console.open(f"/jobs/{job.id}")
    for name, label in (("Inputs", "values of input 1, x"), ("Outputs", "values of output 1, y")):
        panel = console.page.get_by_role("region", name=name, exact=True)
        await expect(panel).to_contain_text("FP32 [1, 10000]")
        await expect(panel.get_by_role("region", name=label)).to_contain_text("9,984 more columns")


async def test_wait_counts_down_to_its_time(console: Console) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
    job = await console.api.submit("echo", {"x": [[1.0]]}, run_at=soon)
    await console.open(f"/jobs/{job.id}")
    left = console.page.get_by_text("May start in")
    await expect(left).to_have_text(re.compile(r"May start in 29 min \d+ s\."))
    before = await left.inner_text()
    await expect(left).not_to_have_text(before)
    for name, enabled in (("Cancel", True), ("Retry", False), ("Erase", False)):
        await expect(console.page.get_by_role("button", name=name, exact=True)).to_be_enabled(enabled=enabled)


async def test_retry_stays_on_the_page_and_keeps_the_history(console: Console, own_receiver: Receiver) -> None:
    page, inbox = console.page, own_receiver.inbox()
    inputs = fault("fail_times", 1) | {"key": [str(uuid4())]}
    job = await console.api.run("faulty", inputs, retry=ONCE, webhook={"url": inbox.url})
    await console.open("/jobs?status=failed", "Jobs")
    await page.get_by_role("link", name=job.id).click()
    await expect(page.get_by_role("alert")).to_contain_text("inference_failed")
    await expect(page.get_by_role("alert")).to_contain_text("Check the inputs, then the log of the model.")
    await page.evaluate("window.isSamePage = true")
    await console.confirm("Retry")
    entries = page.get_by_role("region", name="History").get_by_role("listitem")
    for text in ("Submitted", "Attempt 1 began", "Failed", "Retried", "Succeeded"):
        await expect(entries.filter(has_text=text).first).to_be_visible()
    summary = page.get_by_role("region", name="Summary")
    await expect(summary.get_by_text("succeeded", exact=True)).to_have_count(2)  # the job, and its webhooks
    await expect(entries.filter(has_text="Failed").first).to_contain_text(re.compile(r"ran [\d.]+ m?s on worker-\w+"))
    await expect(page.get_by_role("alert")).to_have_count(0)
    assert await page.evaluate("window.isSamePage")
    await page.get_by_role("link", name="Webhook job.failed delivered").click()
    await expect(page.get_by_role("list", name=re.compile("^Attempts of"))).to_be_visible()


async def test_several_jobs_are_retried_on_another_model(console: Console) -> None:
    page = console.page
    jobs = [await console.api.submit("work", {"ms": [[60_000]]}) for _ in range(2)]
    for job in jobs:
        await console.api.http.post(f"/v1/jobs/{job.id}/cancel")
        await console.api.wait(job.id, "canceled")
    other = await console.api.run("echo", {"x": [[1.0]]})
    await console.open("/jobs", "Jobs")
    await page.get_by_label("Select all").check()
    await page.get_by_role("button", name="Retry", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Run 2 of 3 jobs (those that failed, expired or were canceled) again?")
    await dialog.get_by_label("Model").select_option("work_small")
    await dialog.get_by_role("button", name="Retry", exact=True).click()
    await expect(page.get_by_text("2 jobs to run again.")).to_be_visible()
    assert [(await console.api.get(job.id)).model for job in (*jobs, other)] == ["work_small", "work_small", "echo"]
    for job in jobs:
        await console.api.http.post(f"/v1/jobs/{job.id}/cancel")


async def test_deliveries_of_a_job_are_sent_again(console: Console, receiver: Receiver) -> None:
    page, inbox = console.page, receiver.inbox()
    job = await console.api.run("echo", {"x": [[1.0]]}, webhook={"url": inbox.url, "events": ["job.*"]})
    sent = await inbox.wait(2)
    await console.api.wait_for_webhooks(job.id)  # while an attempt runs, nothing is sent again
    await console.open(f"/jobs/{job.id}")
    await page.get_by_label("Select all 2").check()
    await page.get_by_role("button", name="Send 2 again").click()
    await page.get_by_role("dialog").get_by_role("button", name="Send 2 again").click()
    await expect(page.get_by_text("2 deliveries are being sent again.")).to_be_visible()
    again = (await inbox.wait(4))[2:]
    assert {each.id for each in again} == {each.id for each in sent}


async def test_job_that_changes_often_is_read_at_most_every_two_seconds(console: Console) -> None:
    async def list_reads() -> list[float] | None:
        reads: list[float] = await console.page.evaluate(READS, job.id)  # in ms of the page's own clock
        return reads if len(reads) > 2 else None

    rule = {"max_attempts": 60, "initial_delay": 0.1, "max_delay": 0.2}
    job = await console.api.submit("faulty", fault("unavailable"), retry=rule)
    await console.open(f"/jobs/{job.id}")
    entries = console.page.get_by_role("region", name="History").get_by_text("The attempt failed")
    await expect(entries.nth(10)).to_be_attached()
    reads = await eventually(list_reads, "it is read three times")
    assert min(later - earlier for earlier, later in pairwise(reads)) > 1800
    await console.api.http.post(f"/v1/jobs/{job.id}/cancel")


async def test_long_history_is_cut_in_the_middle(console: Console) -> None:
    job = await console.api.run("faulty", fault("invalid"))
    for _ in range(13):  # each has three entries
        await console.api.http.post(f"/v1/jobs/{job.id}/retry")
        await console.api.wait(job.id)
    await console.open(f"/jobs/{job.id}")
    entries = console.page.get_by_role("region", name="History").get_by_role("listitem")
    await expect(entries.last).to_contain_text("Failed")
    await expect(entries).to_have_count(31)
    await entries.get_by_role("button", name="Show 12 more").click()
    await expect(entries).to_have_count(42)
