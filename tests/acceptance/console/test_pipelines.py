"""Pipelines are checked, stored and looked at in the console, and so are the steps of a run."""

import json
import re

from playwright.async_api import expect

from tests.acceptance.console.conftest import Console
from tests.support.api.model_inputs import LINES, picture
from tests.support.api.page_pipeline import DEFINITION


async def put_pipeline(console: Console, name: str = "page") -> None:
    (await console.api.http.put(f"/v1/pipelines/{name}", json=DEFINITION)).raise_for_status()


async def test_faults_of_a_definition_lead_to_their_places(console: Console) -> None:
    console.watch.allow("422")
    page = console.page
    await console.open("/pipelines", "Pipelines")
    await page.get_by_role("button", name="New pipeline").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("page")
    definition = dialog.get_by_label("Definition")
    await definition.fill("{")
    await dialog.get_by_role("button", name="Check").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("JSON")
    wrong = json.dumps(DEFINITION | {"outputs": {"text": "$read.txet", "total": "$judge.count"}}, indent=2)
    await definition.fill(wrong)
    await dialog.get_by_role("button", name="Check").click()
    faults = dialog.get_by_role("alert").get_by_role("listitem")
    await expect(faults).to_have_count(2)
    await expect(faults.first).to_contain_text("/outputs/text")
    line = 1 + wrong[: wrong.index('"text": "$read.txet"')].count("\n")
    await faults.first.get_by_role("button", name=f"line {line}").click()
    selected = "(field) => field.value.slice(field.selectionStart, field.selectionEnd)"
    assert await definition.evaluate(selected) == '"text"'
    await definition.fill(json.dumps(DEFINITION))
    await dialog.get_by_role("button", name="Check").click()
    await expect(dialog.get_by_role("status")).to_contain_text("It takes image BYTES [1], and makes text BYTES [any]")
    await dialog.get_by_role("button", name="Store").click()
    await expect(page.get_by_role("heading", level=1, name="Pipeline page")).to_be_visible()


async def test_a_pipeline_is_changed_and_deleted(console: Console) -> None:
    await put_pipeline(console)
    page = console.page
    await console.open("/pipelines", "Pipelines")
    await page.get_by_role("link", name="page", exact=True).click()
    graph = page.get_by_role("region", name="Graph of the steps")
    await expect(graph.get_by_role("listitem")).to_have_count(3)
    await expect(graph.get_by_role("listitem").nth(1)).to_contain_text(re.compile("lines.*words.*for each text"))
    await page.get_by_role("button", name="Change").click()
    definition = page.get_by_role("dialog").get_by_label("Definition")
    await definition.fill((await definition.input_value()).replace('"total": "$page.count"', '"all": "$page.count"'))
    await page.get_by_role("dialog").get_by_role("button", name="Store").click()
    summary = page.get_by_role("region", name="Summary")
    await expect(summary).to_contain_text("text, counts, all")
    await summary.get_by_role("link", name="1", exact=True).click()
    await expect(summary).to_contain_text("text, counts, total")
    await console.confirm("Delete")
    await expect(page.get_by_text("There are no pipelines yet.")).to_be_visible()


async def test_a_run_shows_the_graph_of_its_steps(console: Console) -> None:
    console.watch.allow("404")  # once the pipeline is deleted
    await put_pipeline(console)
    page = console.page
    run = await console.api.run("page", picture())
    await console.open("/jobs", "Jobs")
    await expect(page.get_by_role("link", name=re.compile("^job_"))).to_have_count(1)
    await page.get_by_role("link", name=run.id).click()
    graph = page.get_by_role("region", name="Graph of the steps")
    cards = graph.get_by_role("listitem")
    await expect(cards.nth(0)).to_contain_text(re.compile(r"read.*succeeded.*\d m?s"))
    await expect(cards.nth(1)).to_contain_text(f"{len(LINES)} of {len(LINES)} jobs")
    await expect(cards.nth(2)).to_contain_text("after lines")
    history = page.get_by_role("region", name="History")
    await expect(history.get_by_text("Step lines succeeded")).to_be_visible()
    await graph.get_by_role("link", name="lines").click()
    rows = page.get_by_role("region", name="Jobs").get_by_role("row")
    await expect(rows).to_have_count(1 + len(LINES))
    await page.get_by_role("region", name="Jobs").get_by_role("link").first.click()
    summary = page.get_by_role("region", name="Summary")
    await expect(summary).to_contain_text("lines of its run")
    await expect(summary.get_by_role("button", name="Cancel")).to_have_count(0)
    await summary.get_by_role("link", name="its run").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(run.id)
    await console.api.http.delete("/v1/pipelines/page")
    await page.reload()
    await expect(cards).to_have_count(3)  # without the definition, too


async def test_models_show_pipelines_without_numbers(console: Console) -> None:
    await put_pipeline(console)
    await console.open("/models", "Models")
    await console.page.get_by_role("link", name="page", exact=True).click()
    await expect(console.page.get_by_role("region", name="Inputs")).to_contain_text("BYTES")
    await console.page.get_by_role("link", name="See its steps").click()
    await expect(console.page.get_by_role("region", name="Graph of the steps")).to_be_visible()


async def test_a_run_that_goes_on_is_shown_as_it_is(console: Console) -> None:
    step = {"model": "work", "inputs": {"ms": "$inputs.ms"}, "for_each": "ms"}
    definition = {
        "inputs": {"ms": {"datatype": "INT32", "shape": [-1, 1]}},
        "steps": {"wait": step, "after": {"model": "work", "inputs": {"ms": "$wait.slept"}}},
        "outputs": {"slept": "$after.slept"},
    }
    (await console.api.http.put("/v1/pipelines/waits", json=definition)).raise_for_status()
    run = await console.api.submit("waits", {"ms": [[60_000], [60_000]]})
    page = console.page
    await console.open(f"/jobs/{run.id}")
    cards = page.get_by_role("region", name="Graph of the steps").get_by_role("listitem")
    await expect(cards.nth(0)).to_contain_text(re.compile("wait.*running.*0 of 2 jobs"))
    await expect(cards.nth(1)).to_contain_text(re.compile("after.*waiting"))
    await expect(cards.nth(1).get_by_role("link")).to_have_count(0)
    await console.confirm("Cancel")
    await expect(cards.filter(has_text="canceled")).to_have_count(2)
    await console.confirm("Retry")
    await expect(cards.nth(0)).to_contain_text("running")
    await console.confirm("Cancel")
    await expect(cards.filter(has_text="canceled")).to_have_count(2)


async def test_a_long_name_of_a_step_fits_into_the_page(console: Console) -> None:
    name = "n" * 64
    long = {
        "inputs": {"text": {"datatype": "BYTES", "shape": [-1]}},
        "steps": {name: {"model": "words", "inputs": {"text": "$inputs.text"}}},
        "outputs": {"words": f"${name}.words"},
    }
    (await console.api.http.put("/v1/pipelines/long", json=long)).raise_for_status()
    run = await console.api.run("long", {"text": ["a"]})
    await console.open(f"/jobs/{run.id}")
    await expect(console.page.get_by_text(f"Step {name} succeeded")).to_be_visible()
    assert await console.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
