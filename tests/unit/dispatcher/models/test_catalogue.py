"""The catalogue follows Triton's models and saves them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import pytest

from services.dispatcher.models.catalogue import Catalogue
from services.dispatcher.models.loads import Load, SavedLoad
from services.dispatcher.models.served_model import QUEUE_FULL, ServedModel
from services.dispatcher.models.shared_loads import SharedLoads
from services.dispatcher.models.store import NO_LOADS, UNKNOWN, UNLIMITED, Limits, ModelStore
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.quarantine import Quarantine
from services.dispatcher.triton.statistics import Model, Times, Totals
from services.dispatcher.triton.unloaded import LOADING, Repository, Unloaded
from tests.unit.dispatcher.models.fake_loads import FakeLoads


def model(version: str, *, instances: int = 1, max_batch_size: int = 0) -> ModelVersion:
    return ModelVersion("echo", version, False, max_batch_size, instances, [], [])


class FakeTriton(TritonClient):
    """Serves one version. A reload may change its declaration without an outage."""

    def __init__(self, served: ModelVersion) -> None:
        self.served = served
        self.described = 0
        self.unavailable = False
        self.statistics: dict[Model, Totals] = {}
        self.quarantine = Quarantine()
        self.unloaded: Unloaded = {}
        self.repository: Repository = {}
        self.ready = True

    async def read_statistics(self) -> dict[Model, Totals]:
        return self.statistics

    async def list_ready(self) -> set[tuple[str, str]]:
        if self.unavailable:
            raise TritonUnavailable("it is away", away=True)
        found = {(self.served.name, self.served.version)} if self.ready else set()
        return {each for each in found if not self.quarantine.holds(each[0])}

    async def describe(self, _name: str, _version: str) -> ModelVersion:
        self.described += 1
        return self.served


class FakeStore(ModelStore):
    def __init__(self) -> None:
        self.saved: list[tuple[ModelVersion, bool]] = []
        self.retired: list[float] = []
        self.unloaded: Unloaded = {}
        self.times: Mapping[Model, Times] = {}
        self.limits: Limits = {}
        self.loads: Mapping[Model, Load] = {}
        self.known: list[ModelVersion] = []
        self.in_repository: set[Model] = set()
        self.searches: list[set[str]] = []

    async def retire_models(self, grace: float) -> list[tuple[str, str]]:
        self.retired.append(grace)
        return []

    async def save_models(
        self,
        versions: Sequence[tuple[ModelVersion, bool]],
        times: Mapping[Model, Times] = UNKNOWN,
        limits: Limits = UNLIMITED,
        loads: Mapping[Model, Load] = NO_LOADS,
        in_repository: Collection[Model] = (),
    ) -> None:
        self.saved, self.times, self.limits, self.loads = [*versions], times, limits, loads
        self.in_repository = {*in_repository}

    async def find_known(self, names: Collection[str]) -> list[ModelVersion]:
        self.searches.append({*names})
        return [each for each in self.known if each.name in names]

    async def save_unloaded(self, unloaded: Unloaded) -> None:
        self.unloaded = unloaded


async def ignore(_model: ServedModel) -> None:
    """There is no broker to consume from."""


def build(
    triton: TritonClient,
    store: ModelStore,
    on_new_model: Callable[[ServedModel], Awaitable[None]] = ignore,
    *,
    slots: int = 0,
    patterns: Sequence[str] = ("*",),
    saved_loads: FakeLoads | None = None,
    loads_models: bool = False,
) -> Catalogue:
    return Catalogue(
        triton,
        store,
        SharedLoads(triton, saved_loads or FakeLoads()),
        on_new_model,
        interval=1.0,
        slots=slots,
        grace=60.0,
        patterns=patterns,
        loads_models=loads_models,
    )


async def test_a_model_that_was_reloaded_in_place_is_described_again_on_request() -> None:
    triton, store = FakeTriton(model("1", max_batch_size=64)), FakeStore()

    catalogue = build(triton, store)
    assert await catalogue.refresh()
    assert await catalogue.refresh()
    assert (triton.described, catalogue.models["echo"].concurrency.size) == (1, 128)

    triton.served = model("1", max_batch_size=8)
    catalogue.models["echo"].describe_again()
    assert catalogue.refresh_requested.is_set()
    assert await catalogue.refresh()
    assert (catalogue.models["echo"].describe(None), catalogue.models["echo"].concurrency.size) == (triton.served, 16)
    assert store.saved == [(triton.served, True)]


@pytest.mark.parametrize(("configured", "size", "max_size"), [(0, 16, 32), (3, 3, 3), (64, 64, 64)])
async def test_configured_slots_do_not_grow_for_a_quick_model(configured: int, size: int, max_size: int) -> None:
    triton, store = FakeTriton(model("1", max_batch_size=8)), FakeStore()
    catalogue = build(triton, store, slots=configured)
    assert await catalogue.refresh()
    limit = catalogue.models["echo"].concurrency
    assert (limit.size, limit.max_size) == (size, max_size)


async def test_no_model_is_retired_while_triton_is_unavailable() -> None:
    triton, store = FakeTriton(model("1")), FakeStore()

    catalogue = build(triton, store)
    await catalogue.refresh()
    assert store.retired == [60.0]
    triton.unavailable = True
    await catalogue.refresh()
    assert (store.saved, store.retired) == ([(triton.served, False)], [60.0])
    triton.unavailable = False
    await catalogue.refresh()
    assert store.retired == [60.0, 60.0]


async def test_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also one from before the first answer, when no model is known."""
    triton, store = FakeTriton(model("1")), FakeStore()
    catalogue = build(triton, store)
    with caplog.at_level("INFO"):
        for triton.unavailable in (True, True, True, False, True, True, False):
            await catalogue.refresh()
    messages = [record.message for record in caplog.records if record.message.startswith("triton.")]
    assert messages == ["triton.unavailable", "triton.available"] * 2


async def test_a_model_in_quarantine_is_not_available() -> None:
    triton, store = FakeTriton(model("1")), FakeStore()

    catalogue = build(triton, store)
    assert await catalogue.refresh()
    triton.quarantine.add("echo")
    assert not await catalogue.refresh()
    assert (catalogue.models["echo"].available.is_set(), store.saved) == (False, [(triton.served, False)])
    triton.quarantine.release("echo")
    assert await catalogue.refresh()
    assert catalogue.models["echo"].available.is_set()


@pytest.mark.parametrize(("patterns", "runs"), [(("*",), True), (("llm-*", "ec*"), True), (("llm-*", "ECHO"), False)])
async def test_only_models_that_match_a_pattern_are_run(patterns: tuple[str, ...], runs: bool) -> None:
    store, consumed = FakeStore(), list[str]()

    async def on_new_model(found: ServedModel) -> None:
        consumed.append(found.name)

    catalogue = build(FakeTriton(model("1")), store, on_new_model, patterns=patterns)
    assert await catalogue.refresh()
    assert (consumed, len(store.saved)) == ((["echo"], 1) if runs else ([], 0))


async def test_reasons_of_models_that_do_not_run_are_saved_and_a_failed_load_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    triton, store = FakeTriton(model("1")), FakeStore()
    catalogue = build(triton, store, patterns=("ec*", "big"))
    triton.unloaded = {("big", "1"): "no module torch", ("echo", "2"): LOADING, ("other", "1"): "broken"}
    for _ in range(2):
        assert await catalogue.refresh()
    assert store.unloaded == {("big", "1"): "no module torch", ("echo", "2"): LOADING}
    warnings = [
        record.message for record in caplog.records if record.levelname == "WARNING"
    ]  # another test sets the level
    assert warnings == ["model.not_loaded"]
    triton.unloaded = {}
    assert await catalogue.refresh()
    assert store.unloaded == {}


@pytest.mark.parametrize(
    ("version", "configured", "logged"),
    [
        (model("1"), 0, ["model.two_slots"]),
        (model("1"), 2, []),
        (model("1", instances=2), 0, []),
        (model("1", max_batch_size=2), 0, []),
    ],
)
async def test_two_slots_of_a_model_that_runs_one_job_at_a_time_are_explained_once(
    version: ModelVersion, configured: int, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    catalogue = build(FakeTriton(version), FakeStore(), slots=configured)
    caplog.set_level("INFO")
    for _ in range(3):
        assert await catalogue.refresh()
        catalogue.models["echo"].describe_again()
    found = [record for record in caplog.records if record.message == "model.two_slots"]
    assert [record.message for record in found] == logged
    assert all("CHARONIA_SLOTS=1" in str(record.__dict__) for record in found)


async def test_what_triton_reports_of_requests_is_saved() -> None:
    triton, store = FakeTriton(model("1")), FakeStore()
    triton.statistics = {("echo", "1"): Totals(2, 6_000_000, 8_000_000)}
    catalogue = build(triton, store)
    assert await catalogue.refresh()
    assert store.times == {("echo", "1"): Times(3.0, 4.0)}


async def test_why_fewer_jobs_run_than_there_are_slots_is_saved_with_the_next_refresh() -> None:
    store = FakeStore()
    catalogue = build(FakeTriton(model("1", max_batch_size=4)), store)
    assert await catalogue.refresh()
    assert store.limits == {}
    catalogue.models["echo"].note_queue_full()
    assert await catalogue.refresh()
    assert store.limits == {"echo": QUEUE_FULL}


class PatientLoads(FakeLoads):
    """The database answers once the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.asked = asyncio.Event()

    async def list_all(self) -> dict[Model, SavedLoad]:
        self.asked.set()
        await self.may_answer.wait()
        return await super().list_all()


@pytest.fixture
def counting() -> FakeTriton:
    triton = FakeTriton(model("1"))
    triton.statistics = {("echo", "1"): Totals(5, 0, 0, 5)}
    return triton


async def test_a_model_is_available_once_its_load_is_saved(counting: FakeTriton) -> None:
    """Otherwise the first result after a start of Triton could not be reused."""
    store, loads = FakeStore(), PatientLoads()
    catalogue = build(counting, store, saved_loads=loads)
    refreshing = asyncio.create_task(catalogue.refresh())
    await loads.asked.wait()
    echo = catalogue.models["echo"]
    assert not echo.available.is_set()
    loads.may_answer.set()
    assert await refreshing
    assert echo.available.is_set()
    assert store.loads == {("echo", "1"): echo.loads["1"]}


async def test_a_model_that_was_loaded_again_starts_no_job_until_the_load_is_saved(counting: FakeTriton) -> None:
    store, loads = FakeStore(), PatientLoads()
    loads.may_answer.set()
    catalogue = build(counting, store, saved_loads=loads)
    assert await catalogue.refresh()
    echo, before, described = catalogue.models["echo"], store.loads, counting.described
    counting.statistics = {("echo", "1"): Totals(0, 0, 0)}
    for event in (loads.asked, loads.may_answer):
        event.clear()
    refreshing = asyncio.create_task(catalogue.refresh())
    await loads.asked.wait()
    assert not echo.available.is_set()
    assert counting.described == described + 1  # it may declare something else
    loads.may_answer.set()
    assert await refreshing
    assert echo.available.is_set()
    assert store.loads.keys() == before.keys()
    assert store.loads != before


async def test_a_model_that_crashed_while_its_load_was_saved_stays_unavailable(counting: FakeTriton) -> None:
    loads = PatientLoads()
    catalogue = build(counting, FakeStore(), saved_loads=loads)
    refreshing = asyncio.create_task(catalogue.refresh())
    await loads.asked.wait()
    catalogue.models["echo"].mark_unavailable()
    loads.may_answer.set()
    assert not await refreshing
    assert not catalogue.models["echo"].available.is_set()


async def test_models_run_while_the_database_is_away(counting: FakeTriton) -> None:
    """Nobody reuses what they make meanwhile."""
    loads = FakeLoads()
    loads.away = True
    catalogue = build(counting, FakeStore(), saved_loads=loads)
    assert not await catalogue.refresh()
    echo = catalogue.models["echo"]
    assert (echo.available.is_set(), echo.loads) == (True, {})


async def test_an_unloaded_model_is_known_by_what_it_declared_before() -> None:
    triton, store, consumed = FakeTriton(model("1")), FakeStore(), list[str]()
    triton.ready, triton.repository, store.known = False, {"echo": set(), "other": set()}, [triton.served]

    async def consume(new: ServedModel) -> None:
        consumed.append(new.name)

    catalogue = build(triton, store, consume, loads_models=True)
    for _ in range(2):
        assert await catalogue.refresh()  # it is not away, so there is no hurry
    assert (consumed, store.searches) == (["echo"], [{"echo", "other"}])
    assert (store.saved, store.in_repository) == ([(triton.served, False)], {("echo", "1")})
    assert not catalogue.models["echo"].available.is_set()

    triton.ready, triton.served = True, model("1", max_batch_size=8)  # it changed meanwhile
    await catalogue.refresh()
    assert (store.saved, store.in_repository) == ([(triton.served, True)], {("echo", "1")})
    assert catalogue.models["echo"].available.is_set()


async def test_a_version_that_the_repository_no_longer_has_is_missing() -> None:
    triton, store = FakeTriton(model("1")), FakeStore()
    triton.ready, triton.repository, store.known = False, {"echo": {"2"}}, [model("1"), model("2")]
    catalogue = build(triton, store, loads_models=True)
    await catalogue.refresh()
    assert store.in_repository == {("echo", "2")}
    triton.repository = {}
    await catalogue.refresh()
    assert store.in_repository == set()


async def test_unloaded_models_are_away_for_a_dispatcher_that_loads_none() -> None:
    triton, store = FakeTriton(model("1")), FakeStore()
    triton.repository = {"echo": {"1"}}
    catalogue = build(triton, store)
    assert await catalogue.refresh()
    triton.ready = False
    assert not await catalogue.refresh()
    assert (store.saved, store.in_repository, store.searches) == ([(triton.served, False)], set(), [])


async def test_a_model_that_drains_starts_nothing_and_counts_as_not_ready() -> None:
    triton, store = FakeTriton(model("1")), FakeStore()
    triton.repository = {"echo": {"1"}}
    catalogue = build(triton, store, loads_models=True)
    await catalogue.refresh()
    served = catalogue.models["echo"]
    served.drain()
    await catalogue.refresh()
    assert (served.available.is_set(), store.saved) == (False, [(triton.served, False)])
    served.end_drain()
    assert served.available.is_set()
    served.drain()
    triton.ready = False
    await catalogue.refresh()
    served.end_drain()
    assert not served.available.is_set()
    triton.ready = True
    await catalogue.refresh()
    assert served.available.is_set()
