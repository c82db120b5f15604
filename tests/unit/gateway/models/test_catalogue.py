"""Which version of a model a request means."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus

import msgspec
import pytest

from common.errors import DatabaseUnavailable
from common.tensors import Datatype, Signature
from services.gateway.http.problems import Problem
from services.gateway.models.catalogue import Catalogue, order_version
from services.gateway.models.routes import view_model
from services.gateway.models.store import ModelStore, ModelVersion
from services.gateway.models.workloads import Workloads

NOTHING = Workloads(datetime.now(UTC), {}, {}, {}, ())


class Shelf(ModelStore):
    """A catalogue's rows without a database."""

    def __init__(self, *rows: ModelVersion) -> None:
        self.rows = list(rows)
        self.reads = 0

    async def list_models(self) -> list[ModelVersion]:
        self.reads += 1
        return self.rows


def version(number: str, *, ready: bool = True, name: str = "ocr") -> ModelVersion:
    return ModelVersion(name, number, ready, False, 0, [], [])


@pytest.mark.parametrize(
    ("versions", "newest"),
    [(["2", "10", "9"], "10"), (["old", "1"], "1"), (["a", "b"], "b"), (["1"], "1")],
)
def test_versions_are_ordered_as_numbers_and_names_come_first(versions: list[str], newest: str) -> None:
    assert max(map(version, versions), key=order_version).version == newest


async def test_the_newest_ready_version_is_meant_where_none_is_asked_for() -> None:
    catalogue = Catalogue(Shelf(version("2"), version("10", ready=False), version("9")))
    assert (await catalogue.find("ocr")).version == "9"


async def test_the_newest_is_meant_where_none_is_ready() -> None:
    catalogue = Catalogue(Shelf(version("9", ready=False), version("10", ready=False)))
    assert (await catalogue.find("ocr")).version == "10"


async def test_a_version_asked_for_is_meant_ready_or_not() -> None:
    catalogue = Catalogue(Shelf(version("1", ready=False), version("2")))
    assert (await catalogue.find("ocr", "1")).version == "1"


@pytest.mark.parametrize(
    ("name", "number", "known"), [("ocrr", None, "'echo', 'ocr'"), ("ocr", "3", "known versions: '1', '2'")]
)
async def test_what_is_unknown_is_answered_with_what_is_known(name: str, number: str | None, known: str) -> None:
    catalogue = Catalogue(Shelf(version("1", name="echo"), version("1"), version("2")))
    with pytest.raises(Problem) as caught:
        await catalogue.find(name, number)
    assert caught.value.status == HTTPStatus.NOT_FOUND
    assert known in caught.value.detail


@pytest.mark.parametrize("number", [None, "1", "2"])
async def test_a_model_that_never_ran_is_refused_with_the_reason(number: str | None) -> None:
    broken = version("" if number == "2" else "1", ready=False)
    broken = msgspec.structs.replace(broken, declared=False, reason="Triton could not load it: no module torch")
    with pytest.raises(Problem, match=r"'ocr' does not run\. Triton could not load it: no module torch") as caught:
        await Catalogue(Shelf(broken)).find("ocr", number)
    assert (caught.value.status, caught.value.code) == (HTTPStatus.CONFLICT, "model_not_loaded")


async def test_a_version_that_never_ran_is_not_meant_where_none_is_asked_for() -> None:
    broken = msgspec.structs.replace(version("2", ready=False), declared=False, reason="broken")
    catalogue = Catalogue(Shelf(version("1", ready=False), broken))
    assert (await catalogue.find("ocr")).version == "1"
    assert [each.version for each in await catalogue.list_versions("ocr")] == ["1", "2"]


def test_a_model_has_the_reason_of_a_version_unless_one_is_ready() -> None:
    """Such as of a model that ran before its configuration broke: Triton then names no version."""
    broken = msgspec.structs.replace(version("", ready=False), declared=False, reason="broken")
    assert view_model([broken, version("1", ready=False)], {}, NOTHING, 1024).reason == "broken"
    assert view_model([broken, version("1")], {}, NOTHING, 1024).reason is None


def test_an_input_has_the_most_bytes_of_a_file_unless_the_model_reads_that_itself() -> None:
    inputs = [Signature("image", Datatype.BYTES, [1]), Signature("audio", Datatype.BYTES, [1], reference=True)]
    view = view_model([ModelVersion("ocr", "1", True, False, 0, inputs, inputs[:1])], {}, NOTHING, 1024)
    assert [each.max_bytes for each in (*view.inputs, *view.outputs)] == [1024, None, None]


async def test_an_empty_catalogue_asks_for_a_dispatcher() -> None:
    with pytest.raises(Problem, match="is a dispatcher running"):
        await Catalogue(Shelf()).find("ocr")


async def test_rows_are_not_read_again_for_every_request() -> None:
    shelf = Shelf(version("1"))
    catalogue = Catalogue(shelf)
    for _ in range(3):
        await catalogue.find("ocr")
    assert shelf.reads == 1


async def test_those_who_wait_for_the_same_rows_share_one_read_and_its_failure() -> None:
    class Away(Shelf):
        async def list_models(self) -> list[ModelVersion]:
            await asyncio.sleep(0)
            await super().list_models()
            raise DatabaseUnavailable

    shelf = Away()
    catalogue = Catalogue(shelf)
    results = await asyncio.gather(*(catalogue.find("ocr") for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseUnavailable] * 3
    assert shelf.reads == 1
