"""What the pages of models say of Triton's memory. The answers are those of a gateway with such a Triton."""

from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console

GIGABYTE = 2**30
BUDGET = 16 * GIGABYTE


def make_model(name: str, state: str, **residency: Any) -> dict[str, Any]:
    known = {"memory": 6 * GIGABYTE, "load_seconds": 11.4, "place": None, "expected_at": None, "why": None}
    tensor = {"datatype": "FP32", "shape": [-1, -1], "optional": False, "reference": False, "max_bytes": None}
    ready = state == "resident"
    return {
        "kind": "model",
        "name": name,
        "ready": ready,
        "reason": None,
        "streaming": False,
        "max_batch_size": 8,
        "inputs": [tensor | {"name": "x"}],
        "outputs": [tensor | {"name": "y"}],
        "paused": False,
        "running": 0,
        "versions": [{"version": "1", "ready": ready, "reason": None}],
        "queue": {"high": 0, "normal": 0 if ready else 12, "low": 0},
        "slots": 16 if ready else 0,
        "max_running": None,
        "max_running_per_tenant": None,
        "reuse_seconds": None,
        "loaded_at": None,
        "residency": known | {"state": state} | residency,
    }


def make_models() -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    soon, later = ((now + timedelta(minutes=minutes)).isoformat() for minutes in (10, 20))
    waits = "It waits for the loads before it."
    return [
        make_model("detect", "resident"),
        make_model("embed", "resident", memory=2 * GIGABYTE),
        make_model("ocr", "absent", place=2, expected_at=later, why=waits),
        make_model("segment", "absent") | {"queue": {"high": 0, "normal": 0, "low": 0}},
        make_model("speech", "loading", place=1, expected_at=soon, why="It is being loaded."),
    ]


async def answer(console: Console, path: str, value: Any) -> None:
    await console.page.route(f"**{path}", lambda route: route.fulfill(json=value))


async def test_models_page_shows_what_is_loaded_what_is_next_and_why(console: Console) -> None:
    memory = {"used": 14 * GIGABYTE, "budget": BUDGET}
    await answer(console, "/v1/models", {"items": make_models(), "next_cursor": None, "memory": memory})
    await console.open("/models", "Models")
    region = console.page.get_by_role("region", name="Memory of Triton")
    await expect(region).to_contain_text("Models take 14.0 GiB of 16.0 GiB, 87.5 %")
    meter = region.get_by_role("meter")
    assert (await meter.get_attribute("max"), await meter.get_attribute("value")) == (str(BUDGET), str(memory["used"]))
    first, second = await region.get_by_role("listitem").all()
    await expect(first).to_contain_text("It is being loaded.")
    await expect(second).to_contain_text("It waits for the loads before it.")
    await expect(second.get_by_role("time")).to_contain_text("in 19 min")
    await expect(second.get_by_role("link")).to_have_attribute("href", "/console/models/ocr")
    rows = console.page.get_by_role("region", name="Models", exact=True).get_by_role("row")
    await expect(rows.nth(1)).to_contain_text("ready")
    await expect(rows.nth(1)).to_contain_text("6.0 GiB")
    await expect(rows.nth(3)).to_contain_text("absent")
    await expect(rows.nth(5)).to_contain_text("loading")


async def test_models_page_says_nothing_of_memory_where_all_models_stay_loaded(console: Console) -> None:
    models = [each | {"residency": None} for each in make_models()]
    await answer(console, "/v1/models", {"items": models, "next_cursor": None, "memory": None})
    await console.open("/models", "Models")
    await expect(console.page.get_by_role("row").nth(3)).to_contain_text("away")
    await expect(console.page.get_by_role("region", name="Memory of Triton")).to_have_count(0)
    await expect(console.page.get_by_role("columnheader", name="Memory")).to_have_count(0)


async def test_a_model_that_is_not_loaded_is_no_error(console: Console) -> None:
    times = {"p50": None, "p95": None}
    details = {"recent": {"jobs": 0, "queue_ms": times, "inference_ms": times}, "triton": None}
    for model in make_models()[2:]:
        await answer(console, f"/v1/models/{model['name']}", model | details)
    state = console.page.get_by_role("region", name="State")
    for name, text in (("ocr", "jobs wait for it"), ("segment", "as soon as jobs wait"), ("speech", "is loading it")):
        await console.open(f"/models/{name}", f"Model {name}")
        await expect(state).to_contain_text(text)
        await expect(state).to_contain_text("A load takes")
        await expect(state.get_by_role("alert")).to_have_count(0)
    await answer(console, "/v1/models/ocr", make_models()[2] | details | {"reason": "no room on the device"})
    await console.open("/models/ocr", "Model ocr")
    await expect(state.get_by_role("alert")).to_contain_text("no room on the device")
