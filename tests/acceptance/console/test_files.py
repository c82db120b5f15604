"""Files are uploaded with a browser."""

import asyncio

from playwright.async_api import FilePayload, Route, expect

from tests.acceptance.console.conftest import Console


async def test_upload_says_that_it_goes_on(console: Console) -> None:
    page, may_end = console.page, asyncio.Event()

    async def hold(route: Route) -> None:
        await may_end.wait()
        await route.continue_()

    await console.open("/files", "Files")
    await page.route("**/v1/files", hold)
    file = FilePayload(name="scan.bin", mimeType="application/octet-stream", buffer=b"content")
    await page.get_by_label("Upload files").set_input_files(file)
    await expect(page.get_by_role("status")).to_have_text("Uploading scan.bin, 7 B …")
    may_end.set()
    await expect(page.get_by_role("cell", name="7 B", exact=True)).to_be_visible()
    await expect(page.get_by_role("status")).to_have_count(0)
