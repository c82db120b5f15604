"""A model is run from its form."""

from playwright.async_api import expect

from deploy.local.settings import ROOT
from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import LINES, tokens

IMAGE = ROOT / "deploy" / "local" / "demo.png"


async def test_image_is_run_and_its_boxes_are_drawn_over_it(overview: Console) -> None:
    page = overview.page
    await overview.follow("Run")
    await page.get_by_label("Model").select_option("ocr")
    await page.get_by_label("image", exact=True).set_input_files(IMAGE)
    await expect(page.get_by_role("img", name="demo.png")).to_be_visible()  # the preview
    await page.get_by_role("button", name="Run", exact=True).click()
    result = page.get_by_role("region", name="Result")
    boxes = result.get_by_role("img", name=f"{len(LINES)} boxes on the input image")
    await expect(boxes).to_be_visible()
    for line in LINES:
        await expect(result.get_by_role("listitem").filter(has_text=line)).to_be_visible()
    assert await boxes.locator("polygon title").all_text_contents() == LINES
    await expect(result.get_by_text("succeeded")).to_be_visible()


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
