"""What a page of a job says, and what can be done there."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import fault, work

ONCE = {"max_attempts": 1}


async def test_job_that_waits_says_why(console: Console) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = await console.api.submit("work", work(1), run_at=tomorrow)
    await console.open(f"/jobs/{job.id}")
    summary = console.page.get_by_role("region", name="Summary")
    await expect(summary.get_by_text("queued", exact=True)).to_be_visible()
    await expect(summary).to_contain_text("scheduled for")
    await console.confirm("Cancel")
    await expect(summary.get_by_text("canceled", exact=True)).to_be_visible()


async def test_job_behind_others_says_how_many_are_ahead(console: Console) -> None:
    jobs = [await console.api.submit("work", work(20_000)) for _ in range(30)]
    try:
        await console.open(f"/jobs/{jobs[-1].id}")
        waiting = console.page.get_by_role("region", name="Summary")
        await expect(waiting).to_contain_text("slots busy")
        await expect(waiting).to_contain_text("ahead")
    finally:
        for job in jobs:
            await console.api.http.post(f"/v1/jobs/{job.id}/cancel")


async def test_failed_job_is_retried(console: Console) -> None:
    page = console.page
    job = await console.api.run("faulty", fault("fail_times", 1) | {"key": [str(uuid4())]}, retry=ONCE)
    assert job.status == "failed"
    await console.open("/jobs?status=failed", "Jobs")
    await page.get_by_role("link", name=job.id).click()
    await expect(page.get_by_role("alert")).to_contain_text("inference_failed")
    await console.confirm("Retry")
    await expect(page.get_by_role("region", name="Summary").get_by_text("succeeded", exact=True)).to_be_visible()
    history = page.get_by_role("region", name="History").get_by_role("listitem")
    for entry in ("Attempt 1 began", "Failed", "Succeeded"):
        await expect(history.filter(has_text=entry).first).to_be_visible()


async def test_selected_jobs_are_erased(console: Console) -> None:
    page = console.page
    ended, kept = [await console.api.run("echo", {"x": [[1.0]]}) for _ in range(2)]
    await console.open("/jobs", "Jobs")
    await page.get_by_label(f"Select {ended.id}").check()
    await expect(page.get_by_text("1 job selected")).to_be_visible()
    await console.confirm("Erase")
    await expect(page.get_by_text("1 job erased")).to_be_visible()
    erased = [(await console.api.get(job.id)).outputs_omitted for job in (ended, kept)]
    assert erased == ["erased", None]
    await page.get_by_role("link", name=ended.id).click()
    await expect(page.get_by_text("The outputs were erased")).to_be_visible()


async def test_list_of_jobs_follows_what_happens(console: Console) -> None:
    await console.open("/jobs", "Jobs")
    await expect(console.page.get_by_text("There are no jobs yet")).to_be_visible()
    job = await console.api.run("echo", {"x": [[1.0]]})
    row = console.page.get_by_role("row").filter(has_text=job.id)
    await expect(row.get_by_text("succeeded")).to_be_visible()
