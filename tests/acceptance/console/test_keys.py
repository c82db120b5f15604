"""Keys are made in the console."""

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console


async def test_chosen_scopes_stay_after_a_refusal(console: Console) -> None:
    console.watch.allow("422")
    page = console.page
    await console.open("/keys", "Keys")
    await page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("reader")
    await dialog.get_by_label("submit:").uncheck()
    await dialog.get_by_label("Expires").fill("2020-01-01T00:00")
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("expires_at")
    await expect(dialog.get_by_label("read:")).to_be_checked()
    await expect(dialog.get_by_label("submit:")).not_to_be_checked()
    await dialog.get_by_label("Expires").fill("")
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_text("it is not shown again")).to_be_visible()
    made = [key for key in (await console.api.http.get("/v1/keys")).json()["items"] if key["name"] == "reader"]
    assert [key["scopes"] for key in made] == [["read"]]
