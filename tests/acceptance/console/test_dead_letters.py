"""Jobs that failed for good are run again."""

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import fault, work

ONCE = {"max_attempts": 1}


async def test_dead_letter_is_replayed_on_another_model(console: Console) -> None:
    page = console.page
    dead = await console.api.run("work", work(2_000), timeout=1, retry=ONCE)
    other = await console.api.run("faulty", fault("invalid"), retry=ONCE)
    await console.open("/dead-letters", "Dead letters")
    await page.get_by_label(f"Select {dead.id}").check()
    await page.get_by_role("button", name="Replay selected").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Model").select_option("work_small")
    await dialog.get_by_role("button", name="Replay selected").click()
    await expect(page.get_by_text("1 job replayed")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=dead.id)
    await expect(row.get_by_role("cell", name="work", exact=True)).to_have_count(0)  # it may fail again on work_small
    await expect(page.get_by_role("link", name=other.id)).to_be_visible()
    replayed = await console.api.wait(dead.id)
    assert replayed.model == "work_small"


async def test_replay_says_which_jobs_it_skips(console: Console) -> None:
    page = console.page
    dead = await console.api.run("faulty", fault("invalid"), retry=ONCE)
    await console.open("/dead-letters", "Dead letters")
    await page.get_by_role("button", name="Replay all that match").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Run all dead letters again?")
    await dialog.get_by_label("Model").select_option("echo")
    await dialog.get_by_role("button", name="Replay all that match").click()
    await expect(page.get_by_role("alert")).to_contain_text(
        "1 job: 'echo' does not accept the job's inputs: it has no input 'mode'"
    )
    assert (await console.api.get(dead.id)).status == "failed"
