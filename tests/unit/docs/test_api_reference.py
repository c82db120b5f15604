"""The pages of the API describe every call and object once, and name each error where it is particular."""

from collections import Counter

import pytest

from deploy.docs.api import HEADING, OF_RESOURCES, PAGES, resolve_links
from deploy.docs.markdown import SECTION
from deploy.docs.openapi import GROUPS, SHARED, Reference, read_document
from deploy.docs.pages import FOLDER


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(read_document())


def test_every_resource_has_a_page_and_no_other_page_is_left_over() -> None:
    pages = {page.relative_to(FOLDER).as_posix() for page in (FOLDER / "api").rglob("*.md")}
    assert pages == {PAGES[name] for name in OF_RESOURCES}


@pytest.mark.parametrize("name", PAGES)
def test_a_section_is_on_its_page(name: str) -> None:
    text = (FOLDER / PAGES[name]).read_text()
    assert name in {found for found, _ in SECTION.findall(text)}


def test_every_call_and_object_is_on_one_page(reference: Reference) -> None:
    pages = {FOLDER / page for page in PAGES.values()}
    headings = Counter(heading for page in pages for heading in HEADING.findall(page.read_text()))
    calls = {call.operation["summary"] for call in reference.calls}
    assert len(calls) > 50
    assert {name: headings[name] for name in calls | reference.schemas.keys() if headings[name] != 1} == {}


def test_an_object_is_with_the_first_resource_that_uses_it(reference: Reference) -> None:
    owners = reference.owners
    assert {owners["SubmitJob"], owners["JobView"], owners["Callback"]} == {"Jobs"}
    assert (owners["BatchView"], owners["BatchBody"]) == ("Batches", "Webhook events")
    assert {name for name, owner in owners.items() if owner == SHARED} == {"ProblemBody", "FieldError"}


def test_the_common_and_the_own_errors_of_a_call_are_all_it_has(reference: Reference) -> None:
    for call in reference.calls:
        common = [set(reference.common_errors[name]) for name, holds in GROUPS.items() if holds(call)]
        own = reference.list_own_errors(call)
        assert sorted([*set().union(*common), *own]) == list(call.list_errors()), call.operation["operationId"]


def test_a_call_lists_only_errors_that_others_lack(reference: Reference) -> None:
    own = {call.operation["operationId"]: reference.list_own_errors(call) for call in reference.calls}
    assert (own["list_jobs"], own["get_job"], own["create_key"]) == ([], [], ["409"])
    assert own["submit_job"] == ["404", "409"]  # no model of this name, and the Idempotency-Key
    assert own["model_config"] == ["404"]  # which means another thing than under /v1
    assert {"401", "403", "422", "429"}.isdisjoint(status for statuses in own.values() for status in statuses)
    assert own["readyz"] == ["503"]


def test_a_link_names_the_page_of_its_heading() -> None:
    places = {"jobview": "api/jobs.md", "fileview": "api/files.md", "problembody": "api.md"}
    text = "[JobView](#jobview), [FileView](#fileview), [ProblemBody](#problembody)"
    of_entry = "[JobView](api/jobs.md#jobview), [FileView](api/files.md#fileview), [ProblemBody](#problembody)"
    of_jobs = "[JobView](#jobview), [FileView](files.md#fileview), [ProblemBody](../api.md#problembody)"
    assert resolve_links(text, "api.md", places) == of_entry
    assert resolve_links(text, "api/jobs.md", places) == of_jobs
