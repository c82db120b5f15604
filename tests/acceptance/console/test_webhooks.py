"""A subscription from its first test to its recovery."""

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.receivers.webhook_receiver import Receiver


async def test_webhook_is_made_tested_fails_and_is_recovered(console: Console, own_receiver: Receiver) -> None:
    page, inbox = console.page, own_receiver.inbox()
    await console.open("/webhooks", "Webhooks")
    await page.get_by_role("button", name="New subscription").click()
    await page.get_by_role("dialog").get_by_label("URL").fill(inbox.url)
    await page.get_by_role("dialog").get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", level=1, name=inbox.url)).to_be_visible()
    await expect(page.get_by_text("it is not shown again")).to_be_visible()
    await page.get_by_role("button", name="Send a test").click()
    await expect(page.get_by_text("delivered: 204")).to_be_visible()
    assert len(inbox.deliveries) == 1

    own_receiver.close()
    job = await console.api.run("echo", {"x": [[1.0]]})
    failed = page.get_by_role("listitem").filter(has_text="job.succeeded")
    await expect(failed.get_by_text("exhausted", exact=True)).to_be_visible()
    await failed.get_by_text("job.succeeded").click()
    await expect(failed.get_by_text("connect_refused").first).to_be_visible()
    await expect(failed.get_by_role("link", name=job.id)).to_be_visible()

    own_receiver.open()
    await console.confirm("Recover a period")
    await expect(failed.get_by_text("succeeded", exact=True).first).to_be_visible()
    (sent,) = [each for each in await inbox.wait(2) if job.id.encode() in each.request.body]
    assert sent.id


async def test_headers_are_added_kept_and_removed(console: Console, own_receiver: Receiver) -> None:
    page, inbox = console.page, own_receiver.inbox()
    dialog = page.get_by_role("dialog")
    first, second, third = (dialog.get_by_role("group", name=f"Header {number}") for number in (1, 2, 3))
    await console.open("/webhooks", "Webhooks")
    await page.get_by_role("button", name="New subscription").click()
    await dialog.get_by_label("URL").fill(inbox.url)
    for name, value in (("X-Key", "secret"), ("X-Team", "ocr"), ("Host", "other")):
        await dialog.get_by_role("button", name="Add a header").press("Enter")
        await page.keyboard.type(name)
        await page.keyboard.press("Tab")
        await page.keyboard.type(value)
    console.watch.allow("422")
    await page.keyboard.press("Enter")
    await expect(third.get_by_text("Host is set by Charonia")).to_be_visible()
    await expect(third.get_by_label("Name")).to_have_accessible_description("Host is set by Charonia; leave it out")
    await expect(first.get_by_label("Value")).to_have_value("secret")
    await third.get_by_label("Name").fill("X-Team")
    await dialog.get_by_role("button", name="Create").click()
    await expect(dialog.get_by_text("X-Team is there twice", exact=True)).to_have_count(2)
    await third.get_by_role("button", name="Remove").press("Enter")
    await expect(dialog.get_by_role("button", name="Add a header")).to_be_focused()
    await dialog.get_by_role("button", name="Create").click()
    await expect(page.get_by_text("X-Key, X-Team")).to_be_visible()

    await page.get_by_role("button", name="Change").click()
    await expect(first.get_by_label("Name")).to_have_value("X-Key")
    await expect(first.get_by_label("Value")).to_have_value("")
    await second.get_by_role("button", name="Remove").click()
    await dialog.get_by_role("button", name="Add a header").click()
    await second.get_by_label("Name").fill("X-Shop")
    await second.get_by_label("Value").fill("berlin")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("X-Key, X-Shop")).to_be_visible()
    await page.get_by_role("button", name="Send a test").click()
    (sent,) = await inbox.wait()
    headers = sent.request.headers
    assert (headers["x-key"], headers["x-shop"], "x-team" in headers) == ("secret", "berlin", False)


async def test_page_of_a_job_says_where_each_webhook_goes(console: Console, own_receiver: Receiver) -> None:
    urls = [own_receiver.inbox().url for _ in range(2)]
    for url in urls:
        await console.api.http.post("/v1/webhooks", json={"url": url, "events": ["job.succeeded"]})
    job = await console.api.wait_for_webhooks((await console.api.run("echo", {"x": [[1.0]]})).id)
    await console.open(f"/jobs/{job.id}", "Job")
    for url in urls:
        await expect(console.page.locator("summary").filter(has_text=url)).to_have_count(1)
