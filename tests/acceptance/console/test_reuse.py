"""Jobs that share a result lead to each other, and the overview says what that saves."""

import re

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import work
from tests.support.waiting import eventually

REUSE = {"max_age": 600}


async def knows_load(console: Console) -> bool:
    return bool((await console.api.http.get("/v1/models/work")).json()["loaded_at"])


async def test_jobs_that_share_a_result_lead_to_each_other(console: Console) -> None:
    page, api = console.page, console.api
    await eventually(lambda: knows_load(console), "the load of the model is known")
    maker = await api.submit("work", work(3003), reuse=REUSE)
    waiter = await api.submit("work", work(3003), reuse=REUSE)
    await console.open(f"/jobs/{waiter.id}")
    await expect(page.get_by_text(f"Waits: asks the same as {maker.id}")).to_be_visible()
    await expect(page.get_by_role("link", name="See that job")).to_have_attribute("href", re.compile(maker.id))
    await api.wait(waiter.id)
    await page.get_by_role("link", name="a job that asked the same").click()
    await expect(page.get_by_role("heading", level=1, name=f"Job {maker.id}")).to_be_visible()
    await api.post({"model": "work", "inputs": work(3003), "reuse": REUSE})
    await console.open("/", "Overview")
    saved = page.get_by_role("main").get_by_role("link", name=re.compile("^Inferences saved"))
    await expect(saved).to_contain_text(re.compile("2.*hits: 1, joins: 1"))
