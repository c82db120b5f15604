"""The list of jobs is filtered, and follows what happens."""

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console


async def test_filter_by_model_suggests_names(console: Console) -> None:
    page = console.page
    job = await console.api.run("echo", {"x": [[1.0]]})
    await console.open("/jobs", "Jobs")
    model = page.get_by_label("Model")
    await model.focus()
    await expect(page.locator("datalist option[value=echo]")).to_be_attached()
    await model.fill("ech")
    await model.press("Enter")
    await expect(page.get_by_text("The model is compared with the whole name, ech.")).to_be_visible()
    await model.fill("echo")
    await model.press("Enter")
    await expect(page.get_by_role("link", name=job.id)).to_be_visible()


async def test_text_that_is_typed_stays_while_the_list_is_read_again(console: Console) -> None:
    page = console.page
    await console.open("/jobs", "Jobs")
    await expect(page.get_by_text("There are no jobs yet")).to_be_visible()
    model = page.get_by_label("Model")
    await model.press_sequentially("ech")
    job = await console.api.run("echo", {"x": [[1.0]]})
    row = page.get_by_role("row").filter(has_text=job.id)
    await expect(row.get_by_text("succeeded")).to_be_visible()
    await expect(model).to_have_value("ech")
