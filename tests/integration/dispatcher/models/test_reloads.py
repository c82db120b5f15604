"""A real Triton counts from zero after each load. So a model with other weights is another load, and only that is."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from common import tensors
from common.postgres.database import Database
from common.tensors import Datatype, Tensor
from deploy.local.servers.triton import Triton as Server
from services.dispatcher.models.catalogue import Catalogue
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.shared_loads import SharedLoads
from services.dispatcher.triton.inference import infer
from services.dispatcher.triton.request import InferenceRequest
from tests.integration.dispatcher.inference import LIMIT, connect
from tests.integration.dispatcher.triton.test_broken_models import ECHO, add_model, make_server
from tests.integration.stores import Stores
from tests.integration.waiting import until

pytestmark = pytest.mark.triton  # these tests start servers of their own

CODE = (ECHO / "1" / "model.py").read_text()
ENSEMBLE = """
name: "twice"
platform: "ensemble"
max_batch_size: 64
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] } ]
ensemble_scheduling { step [ {
  model_name: "double" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "y" }
} ] }
"""


class Reloadable:
    """A Triton whose model `double` tests reload, and a dispatcher's catalogue of it."""

    def __init__(self, server: Server, repository: Path, database: Database) -> None:
        self.server = server
        self._folder = repository / "double"
        self._database = database
        self.start_dispatcher()

    def start_dispatcher(self) -> None:
        """Begin with an empty memory."""
        stores = Stores(self._database)
        self.client = connect(self.server)
        loads = SharedLoads(self.client, stores.loads)
        self.catalogue = Catalogue(self.client, stores.models, loads, ignore, interval=60.0, slots=0, grace=60.0)

    async def find_load(self, model: str = "double") -> UUID:
        """Return the load of a model, after a refresh."""
        assert await self.catalogue.refresh()
        return self.catalogue.models[model].loads["1"].id

    async def wait_for_another(self, load: UUID) -> UUID:
        """Return the load after this one. It is seen when Triton must have counted what ran since."""

        async def is_another() -> bool:
            return await self.find_load() != load

        await until(is_another, "the reload is seen")
        return await self.find_load()

    async def run(self, model: str = "double") -> None:
        """Infer as an attempt does."""
        served = self.catalogue.models[model]
        declared = served.describe(None)
        assert declared is not None
        x = tensors.pack([Tensor("x", Datatype.FP32, [1, 1], bytes(4))])
        request = InferenceRequest("job_1", model, None, x, None, 30.0, LIMIT)
        with served.inferences.run() as note_success:
            note_success((await infer(self.client, request, declared)).version)

    def reload(self, weights: str) -> None:
        """Load the model over itself, with other weights."""
        (self._folder / "1" / "weights").write_text(weights)
        self.server.models.load("double")

    def configure(self, **parameters: str) -> None:
        """Load the model over itself, with these parameters `charonia.…`."""
        lines = [
            f'parameters {{ key: "charonia.{name}" value {{ string_value: "{value}" }} }}\n'
            for name, value in parameters.items()
        ]
        plain = (ECHO / "config.pbtxt").read_text().replace('"echo"', '"double"')
        (self._folder / "config.pbtxt").write_text(plain + "".join(lines))
        self.server.models.load("double")


async def ignore(_model: ServedModel) -> None:
    """There is no broker to consume from."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    found = tmp_path / "models"
    found.mkdir()
    add_model(found, "double", CODE)
    add_model(found, "twice", None, ENSEMBLE)
    return found


@pytest.fixture
def server(tmp_path: Path, repository: Path) -> Iterator[Server]:
    found = make_server(tmp_path, repository, "explicit")
    found.start()
    found.wait_ready()
    yield found
    found.kill()


@pytest.fixture
async def reloadable(server: Server, repository: Path, database: Database) -> Reloadable:
    """It opens a channel, which needs an event loop."""
    return Reloadable(server, repository, database)


async def test_a_load_lasts_until_the_model_is_loaded_with_other_weights(reloadable: Reloadable) -> None:
    """However many requests came since, and although the model was ready all the time."""
    first = await reloadable.find_load()
    ensemble = await reloadable.find_load("twice")
    for _ in range(3):
        await reloadable.run()
        await reloadable.run("twice")
        assert await reloadable.find_load() == first
    reloadable.server.models.load("double")  # nothing changed, so Triton does nothing
    assert await reloadable.find_load() == first
    assert await reloadable.find_load("twice") == ensemble
    reloadable.reload("other")
    for _ in range(20):
        await reloadable.run()
    second = await reloadable.wait_for_another(first)
    assert await reloadable.find_load("twice") != ensemble  # Triton loads an ensemble with its steps
    await reloadable.run()
    reloadable.start_dispatcher()
    assert await reloadable.find_load() == second


async def test_a_dispatcher_that_was_away_for_a_reload_sees_it(reloadable: Reloadable) -> None:
    first = await reloadable.find_load()
    for _ in range(2):
        await reloadable.run()
    assert await reloadable.find_load() == first
    reloadable.reload("other")
    reloadable.start_dispatcher()
    assert await reloadable.find_load() != first


async def test_weights_with_a_name_are_the_same_load_until_the_name_changes(reloadable: Reloadable) -> None:
    await reloadable.find_load()
    await reloadable.run()
    reloadable.configure(weights="2026-11")
    named = await reloadable.find_load()
    await reloadable.run()
    reloadable.reload("the same, from another place")
    assert await reloadable.find_load() == named
    await reloadable.run()
    reloadable.configure(weights="2026-12")
    await reloadable.wait_for_another(named)
