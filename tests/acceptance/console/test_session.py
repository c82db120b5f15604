"""Who may see what."""

from playwright.async_api import expect

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import work
from tests.support.api.tenants import make_tenant
from tests.support.stacks.key_command import revoke_key


async def test_text_that_is_no_key_is_not_sent_and_a_wrong_key_is_refused_with_a_reason(signed_out: Console) -> None:
    page = signed_out.page
    await page.goto(f"{signed_out.root}/jobs")
    await page.get_by_label("API key").fill("ключ")
    await page.get_by_role("button", name="Sign in").press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("This is no API key")
    await expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    signed_out.watch.allow("401")
    await page.get_by_label("API key").fill("ch_wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("this API key is unknown")
    await page.get_by_label("API key").fill(signed_out.key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", level=1, name="Jobs")).to_be_visible()


async def test_revoked_key_signs_out(overview: Console, stack: Stack) -> None:
    overview.watch.allow("401")
    (own,) = (await overview.api.http.get("/v1/keys")).json()["items"]
    await revoke_key(stack, own["id"])
    # The page finds out by itself: it reads the statistics again and again.
    await expect(overview.page.get_by_role("alert")).to_contain_text("You were signed out")
    assert await overview.page.evaluate("sessionStorage.length") == 0
    await expect(overview.page.get_by_role("navigation")).to_have_count(0)


async def test_sign_out_forgets_the_key(overview: Console) -> None:
    await overview.page.get_by_role("button", name="Sign out").click()
    await expect(overview.page.get_by_label("API key")).to_be_visible()
    assert await overview.page.evaluate("sessionStorage.length + localStorage.length") == 0
    await overview.page.reload()
    await expect(overview.page.get_by_label("API key")).to_be_visible()


async def test_job_of_another_tenant_is_not_found(console: Console, stack: Stack) -> None:
    console.watch.allow("404")
    async with open_client(stack, await make_tenant(stack, "console-other")) as other:
        job = await other.submit("work", work(1))
    await console.page.goto(f"{console.root}/jobs/{job.id}")
    await expect(console.page.get_by_role("alert").first).to_contain_text("not found")
    await expect(console.page.get_by_text("work", exact=True)).to_have_count(0)


async def test_what_does_not_exist_is_not_found_and_not_to_be_tried_again(console: Console) -> None:
    console.watch.allow("404")
    page = console.page
    await page.goto(f"{console.root}/models/none")
    await expect(page.get_by_role("alert")).to_contain_text("not found")
    await expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    await page.get_by_role("link", name="All models").click()
    await expect(page.get_by_role("heading", level=1, name="Models")).to_be_visible()
    await page.goto(f"{console.root}/webhooks/whk_00000000000000000000000000")
    await expect(page.get_by_role("heading", level=1, name="Webhook not found")).to_be_visible()
    await page.get_by_role("link", name="Go to the webhooks").click()
    await expect(page.get_by_role("heading", level=1, name="Webhooks", exact=True)).to_be_visible()


async def test_second_click_makes_no_second_key(console: Console) -> None:
    page = console.page
    await console.open("/keys", "Keys")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("only")
    await page.get_by_role("dialog").get_by_role("button", name="Create").dblclick()
    await expect(page.get_by_text("it is not shown again")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="only")).to_have_count(1)
