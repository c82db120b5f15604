"""What a page of a job says, and what can be done there."""

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import work


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
