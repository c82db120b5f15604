"""A model is run from its form."""

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import tokens


async def test_output_that_looks_like_html_stays_text(console: Console) -> None:
    text = '<img/src="/nothing"/onerror="document.title=`owned`">'
    job = await console.api.run("tokens", tokens([text]))
    await console.open(f"/jobs/{job.id}")
    await expect(console.page.get_by_role("region", name="Outputs").get_by_text(text)).to_be_visible()
    await expect(console.page.locator("img[src='/nothing']")).to_have_count(0)
    assert await console.page.title() == f"{job.id} · Jobs · Charonia"


async def test_mistake_in_an_input_is_named(console: Console) -> None:
    console.watch.allow("422")
    await console.open("/run?model=work", "Run a model")
    await console.page.get_by_label("ms", exact=True).fill("many")
    await console.page.get_by_role("button", name="Run", exact=True).click()
    await expect(console.page.get_by_role("alert")).to_have_text("ms: expected a whole number")
    await console.page.get_by_label("ms", exact=True).fill("0.5")
    await console.page.get_by_role("button", name="Run", exact=True).click()
    await expect(console.page.get_by_role("alert")).to_contain_text("ms")


async def test_run_is_shown_again_after_back_and_reload(console: Console) -> None:
    page = console.page
    await console.open("/run?model=echo", "Run a model")
    await page.get_by_label("x", exact=True).fill("21")
    await page.get_by_role("button", name="Run", exact=True).click()
    answer = page.get_by_role("region", name="Result").get_by_role("cell", name="42")
    await expect(answer).to_be_visible()
    await page.get_by_role("link", name="Open the job").click()
    await page.go_back()
    await expect(answer).to_be_visible()
    await page.reload()
    await expect(answer).to_be_visible()
    await page.get_by_label("Model").select_option("tokens")
    await expect(answer).to_have_count(0)
