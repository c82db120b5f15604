"""The items of a batch whose models are pipelines."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import msgspec

from common import ids
from common.security.ssrf import AddressPolicy
from services.gateway.auth.store import Key
from services.gateway.batches.checks import CheckedItems, check_items
from services.gateway.batches.items import Items
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.inputs.large_input_writer import LargeInputWriter
from services.gateway.jobs.lookups import Lookups
from services.gateway.jobs.submit import Submitter
from services.gateway.models.pipeline_store import PipelineKey
from tests.unit.gateway.parsing import TRACEPARENT, FakeCatalogue, FakePipelines, FakeWorkers
from tests.unit.gateway.stored_pipelines import new_stored

RUN = {"model": "chain", "inputs": {"x": [1.0], "rows": [[1.0, 2.0]]}}
JOB = {"model": "echo", "inputs": {"x": [1.0]}}


class FakeItems(Items):
    def __init__(self, items: Sequence[object]) -> None:
        self._items = items
        self.digest = hashlib.sha256()

    async def __aiter__(self) -> AsyncIterator[bytes | str]:
        for item in self._items:
            yield msgspec.json.encode(item)

    def hold(self, size: int) -> None: ...


async def check(pipelines: FakePipelines, *items: object) -> CheckedItems:
    none = cast(Any, None)
    lookups = Lookups(InputFiles(none, none, none, 2**20, AddressPolicy()), pipelines)
    large = LargeInputWriter(none, none, none, none)
    submitter = Submitter(
        none, FakeCatalogue(), none, AddressPolicy(), none, none, FakeWorkers(), lookups, large, none, none
    )
    return await check_items(submitter, Key(ids.new(), ids.new()), ids.new(), FakeItems(items), TRACEPARENT)


async def test_the_pipelines_of_all_items_are_looked_up_together() -> None:
    pipelines = FakePipelines(new_stored())
    checked = await check(pipelines, RUN, JOB, RUN, JOB | {"model": "other"}, RUN | {"version": "7"})
    assert pipelines.wanted == [{PipelineKey("chain"), PipelineKey("chain", "7"), PipelineKey("other")}]
    assert [job.is_run for job in checked.jobs] == [True, False, True]
    assert [(error.index, error.type.rpartition(":")[2]) for error in checked.errors] == [
        (3, "model_not_found"),
        (4, "model_not_found"),
    ]
    assert [item.number for item in checked.items] == [0, 1, 2, 3, 4]


async def test_jobs_of_models_look_up_no_pipeline() -> None:
    pipelines = FakePipelines()
    assert len((await check(pipelines, JOB, JOB)).jobs) == 2
    assert pipelines.wanted == []


async def test_a_name_is_used_once_also_if_its_item_waits_for_a_look_up() -> None:
    checked = await check(FakePipelines(new_stored()), RUN | {"custom_id": "a"}, JOB | {"custom_id": "a"})
    assert [(error.index, error.errors[0].pointer) for error in checked.errors] == [(1, "/custom_id")]
