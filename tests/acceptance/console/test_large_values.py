"""Numbers, texts and streams that are larger than usual."""

from datetime import UTC, datetime, timedelta

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.triton_client import MIRROR_DTYPES

LARGE = 9007199254740993  # 2^53 + 1: the first that a number of JavaScript cannot hold
WORDS = 300
HIGHEST = 600  # pixels of a panel with a long text


async def test_whole_numbers_of_64_bits_are_exact(console: Console) -> None:
    zeros: dict[str, object] = {name: [[0]] for name in MIRROR_DTYPES} | {"bool": [[False]], "bytes": [[""]]}
    values = {"int64": [[LARGE, -(2**63)]], "uint64": [[2**64 - 1, LARGE]]}
    job = await console.api.run("mirror", zeros | values, metadata={"order": LARGE})
    await console.open(f"/jobs/{job.id}")
    for name in ("Inputs", "Outputs"):
        panel = console.page.get_by_role("region", name=name, exact=True)
        for number in (LARGE, -(2**63), 2**64 - 1):
            await expect(panel.get_by_role("cell", name=str(number), exact=True).first).to_be_visible()
    await expect(console.page.get_by_role("region", name="Summary")).to_contain_text(str(LARGE))


async def test_large_number_is_sent_as_it_was_written(console: Console) -> None:
    console.watch.allow("422")
    page = console.page
    await console.open("/run?model=tokens", "Run a model")
    await page.get_by_label("text", exact=True).fill("one")
    for kind, number in (("number", LARGE), ("json", LARGE + 2)):
        await page.get_by_label("How to give delay_ms").select_option(kind)
        await page.get_by_label("delay_ms", exact=True).fill(f"[{number}]" if kind == "json" else f"{number}")
        await page.get_by_role("button", name="Run", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text(f"{number} is outside")


async def test_long_stream_is_one_text(console: Console) -> None:
    words = [f"word{number}" for number in range(WORDS)]
    job = await console.api.submit("tokens", {"text": [" ".join(words)]})
    await console.api.wait(job.id)
    await console.open(f"/jobs/{job.id}")
    outputs = console.page.get_by_role("region", name="Outputs", exact=True)
    await expect(outputs).to_contain_text(" ".join(words[-3:]))
    history = console.page.get_by_role("region", name="History")
    await expect(history.get_by_role("listitem").filter(has_text=f"{WORDS} outputs")).to_be_visible()


async def test_long_text_takes_a_limited_part_of_the_page(console: Console) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    inputs, metadata = {"text": ["word " * 4_000]}, {"note": "x" * 8_000}
    job = await console.api.submit("tokens", inputs, metadata=metadata, run_at=tomorrow)
    await console.open(f"/jobs/{job.id}")
    for panel, text in (("Summary", "Metadata"), ("Inputs", "Text of text")):
        region = console.page.get_by_role("region", name=panel, exact=True)
        await expect(region.get_by_role("region", name=text)).to_be_visible()
        box = await region.bounding_box()
        assert box
        assert box["height"] < HIGHEST
