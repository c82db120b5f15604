"""The dispatchers of one Triton give each load the same id, and know no load whose id is not saved."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from common.errors import Unavailable
from services.dispatcher.models.loads import Load, SavedLoad
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.shared_loads import SharedLoads
from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.errors import TritonUnavailable
from services.dispatcher.triton.model_version import ModelVersion
from services.dispatcher.triton.statistics import Model, Totals
from tests.unit.dispatcher.models.fake_loads import NOW, FakeLoads

ECHO = ("echo", "1")
PLAIN = ModelVersion("echo", "1", False, 8, 1, [], [])


def named(weights: str) -> ModelVersion:
    return ModelVersion("echo", "1", False, 8, 1, [], [], {"charonia.weights": weights})


class Counters(TritonClient):
    """A Triton's counters of one version. None: it does not answer."""

    def __init__(self) -> None:
        self.successes: int | None = 0

    async def read_statistics(self) -> dict[Model, Totals]:
        if self.successes is None:
            raise TritonUnavailable("no answer")
        return {ECHO: Totals(self.successes, 0, 0, self.successes)}


@dataclass
class Dispatcher:
    """A dispatcher with one model, as far as its loads matter."""

    loads: SharedLoads
    model: ServedModel = field(default_factory=lambda: ServedModel("echo", asyncio.Event()))
    loaded_again: set[Model] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.model.add_version(PLAIN, 0)

    @property
    def models(self) -> Mapping[str, ServedModel]:
        return {"echo": self.model}

    async def refresh(self, *, ready: bool = True) -> UUID | None:
        """Return the id of the load, as the model knows it."""
        await self.loads.read(self.models, {ECHO} if ready else set())
        self.loaded_again = await self.loads.share(self.models)
        self.loads.publish(self.models)
        return self.model.loads["1"].id if "1" in self.model.loads else None


@pytest.fixture
def triton() -> Counters:
    return Counters()


@pytest.fixture
def store() -> FakeLoads:
    return FakeLoads()


@pytest.fixture
def first(triton: Counters, store: FakeLoads) -> Dispatcher:
    return Dispatcher(SharedLoads(triton, store))


@pytest.fixture
def second(triton: Counters, store: FakeLoads) -> Dispatcher:
    return Dispatcher(SharedLoads(triton, store))


async def test_dispatchers_of_one_triton_know_the_same_load(
    triton: Counters, first: Dispatcher, second: Dispatcher
) -> None:
    triton.successes = 5
    load = await first.refresh()
    assert load is not None
    assert await second.refresh() == load
    for triton.successes in (6, 9):
        assert await second.refresh() == load
        assert await first.refresh() == load


async def test_each_of_them_sees_a_reload_and_one_names_the_load(
    triton: Counters, first: Dispatcher, second: Dispatcher
) -> None:
    triton.successes = 5
    before = await first.refresh()
    assert await second.refresh() == before
    triton.successes = 0
    after = await first.refresh()
    assert after not in (before, None)
    assert await second.refresh() == after
    assert await first.refresh() == after


async def test_a_reload_that_another_dispatcher_saw_is_described_again(
    triton: Counters, first: Dispatcher, second: Dispatcher
) -> None:
    """It may declare other weights. Here, no counter shows that."""
    triton.successes = 5
    await first.refresh()
    await second.refresh()
    first.model.add_version(named("2026-12"), 0)
    await first.refresh()
    assert first.loaded_again == set()
    await second.refresh()
    assert second.loaded_again == {ECHO}
    await second.refresh()
    assert second.loaded_again == set()


class Rival(FakeLoads):
    """Another dispatcher saves a load between this one's look and its save."""

    async def list_all(self) -> dict[Model, SavedLoad]:
        found = dict(self.rows)
        self.rows.setdefault(ECHO, SavedLoad(Load(UUID(int=7), NOW), 0, held=True))
        return found


async def test_the_first_of_two_that_save_a_load_at_once_names_it(triton: Counters) -> None:
    late = Dispatcher(SharedLoads(triton, Rival()))
    assert await late.refresh() == UUID(int=7)


async def test_a_dispatcher_that_starts_again_adopts_the_load(
    triton: Counters, store: FakeLoads, first: Dispatcher
) -> None:
    triton.successes = 5
    load = await first.refresh()
    triton.successes = 6
    assert await Dispatcher(SharedLoads(triton, store)).refresh() == load
    triton.successes = 5  # the other one saved 6
    assert await Dispatcher(SharedLoads(triton, store)).refresh() != load


async def test_a_version_that_was_unloaded_meanwhile_has_another_load(triton: Counters, first: Dispatcher) -> None:
    """Until it is loaded again, the last one counts: clients may get its results while Triton is away."""
    triton.successes = 5
    load = await first.refresh()
    assert await first.refresh(ready=False) == load
    assert await first.refresh() not in (load, None)


async def test_a_new_load_is_not_known_while_the_database_is_away(
    triton: Counters, store: FakeLoads, first: Dispatcher
) -> None:
    triton.successes = 5
    load = await first.refresh()
    store.away = True
    with pytest.raises(Unavailable):
        await first.refresh()
    assert first.model.loads["1"].id == load
    triton.successes = 0
    with pytest.raises(Unavailable):
        await first.refresh()
    assert first.model.loads == {}
    store.away = False
    assert await first.refresh() not in (load, None)


async def test_without_counters_no_load_is_known_unless_its_weights_have_a_name(
    triton: Counters, first: Dispatcher
) -> None:
    triton.successes = None
    assert await first.refresh() is None
    first.model.add_version(named("2026-11"), 0)
    load = await first.refresh()
    assert load is not None
    triton.successes = 5
    assert await first.refresh() == load
    assert first.model.loads["1"].at == NOW


async def test_named_weights_survive_a_reload_and_other_ones_do_not(
    triton: Counters, store: FakeLoads, first: Dispatcher
) -> None:
    first.model.add_version(named("2026-11"), 0)
    triton.successes = 5
    load = await first.refresh()
    triton.successes = 0
    assert await first.refresh() == load
    other_triton = Dispatcher(SharedLoads(triton, FakeLoads()))
    other_triton.model.add_version(named("2026-11"), 0)
    assert await other_triton.refresh() == load
    first.model.add_version(named("2026-12"), 0)
    assert await first.refresh() != load


async def test_another_declaration_is_another_load_though_no_counter_fell(triton: Counters, first: Dispatcher) -> None:
    triton.successes = 5
    load = await first.refresh()
    first.model.add_version(ModelVersion("echo", "1", False, 16, 1, [], []), 0)
    after = await first.refresh()
    assert after not in (load, None)
    assert await first.refresh() == after


async def test_nothing_is_saved_while_nothing_happens(triton: Counters, store: FakeLoads, first: Dispatcher) -> None:
    triton.successes = 5
    for _ in range(3):
        await first.refresh()
    assert store.saves == 1
    triton.successes = 6
    await first.refresh()
    assert (store.saves, store.rows[ECHO].executions) == (2, 6)


async def test_the_catalogue_is_told_which_versions_were_loaded_again(triton: Counters, first: Dispatcher) -> None:
    triton.successes = 5
    assert await first.loads.read(first.models, {ECHO}) == set()
    await first.loads.share(first.models)
    triton.successes = 4
    assert await first.loads.read(first.models, {ECHO}) == {ECHO}
