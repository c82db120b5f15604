"""Lists are read with the keys that `?` lists."""

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console


async def test_keys_filter_move_open_and_are_listed(console: Console) -> None:
    page, keyboard = console.page, console.page.keyboard
    older, newer = [await console.api.run("echo", {"x": [[1.0]]}) for _ in range(2)]
    await console.open("/jobs", "Jobs")
    first, second = (page.get_by_role("link", name=job.id) for job in (newer, older))
    await expect(first).to_be_visible()
    await keyboard.press("j")
    await expect(first).to_be_focused()
    await keyboard.press("j")
    await expect(second).to_be_focused()
    await keyboard.press("k")
    await expect(first).to_be_focused()
    await keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    for key in ("/", "j", "k", "Enter", "?"):
        await expect(keys.get_by_text(key, exact=True)).to_be_visible()
    await keyboard.press("Escape")
    await expect(keys).to_be_hidden()
    await expect(first).to_be_focused()
    await keyboard.press("/")
    await expect(page.get_by_label("Status")).to_be_focused()
    await page.get_by_label("Status").blur()
    await keyboard.press("j")
    await keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1, name=newer.id)).to_be_visible()


async def test_menu_can_be_skipped(console: Console) -> None:
    await console.open("/jobs", "Jobs")
    await console.page.keyboard.press("Tab")
    await expect(console.page.get_by_role("link", name="Skip to the page")).to_be_focused()
    await console.page.keyboard.press("Enter")
    await expect(console.page.locator("main")).to_be_focused()


async def test_rows_are_selected_and_left_with_the_keyboard(console: Console) -> None:
    page, keyboard = console.page, console.page.keyboard
    _, newer = [await console.api.run("echo", {"x": [[1.0]]}) for _ in range(2)]
    await console.open("/jobs", "Jobs")
    await page.get_by_label(f"Select {newer.id}").check()
    await keyboard.press("j")
    await expect(page.locator("[data-row]").nth(1)).to_be_focused()
    await page.get_by_label("Status").focus()
    await keyboard.press("Escape")
    await keyboard.press("j")
    await expect(page.get_by_role("link", name=newer.id)).to_be_focused()


async def test_focus_is_where_the_work_goes_on(console: Console) -> None:
    page, keyboard = console.page, console.page.keyboard
    jobs = [await console.api.run("echo", {"x": [[1.0]]}) for _ in range(2)]
    await console.open("/jobs", "Jobs")
    row = page.get_by_role("link", name=jobs[0].id)
    await row.press("Enter")
    await expect(page.get_by_role("heading", level=1, name=jobs[0].id)).to_be_visible()
    await expect(page.locator("main")).to_be_focused()
    await expect(page).to_have_title(f"{jobs[0].id} · Jobs · Charonia")
    await page.go_back()
    await expect(row).to_be_focused()
    await page.get_by_label(f"Select {jobs[0].id}").check()
    await page.get_by_role("button", name="Erase").press("Enter")
    await page.get_by_role("dialog").get_by_role("button", name="Erase").press("Enter")
    await expect(page.get_by_text("1 job erased.")).to_be_visible()
    erase = page.get_by_role("button", name="Erase")
    await expect(erase).to_be_disabled()
    await expect(erase).to_be_focused()
    await erase.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await keyboard.press("j")
    await expect(page.locator("[data-row]").first).to_be_focused()


async def test_rows_without_a_page_are_moved_over_too(console: Console) -> None:
    await console.open("/keys", "Keys")
    await console.page.keyboard.press("j")
    await expect(console.page.locator("tbody [data-row]").first).to_be_focused()
    await console.page.keyboard.press("Tab")
    await expect(console.page.get_by_role("button", name="Revoke").first).to_be_focused()
