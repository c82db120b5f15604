"""The loads of one Triton as its dispatchers share them, in memory."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from common.errors import Unavailable
from services.dispatcher.models.load_store import LoadStore, LoadToSave
from services.dispatcher.models.loads import Load, SavedLoad
from services.dispatcher.triton.statistics import Model

NOW = datetime(2026, 11, 28, tzinfo=UTC)


class FakeLoads(LoadStore):
    """Saves as the statement does: in place of the load that a row has, or where there is no row."""

    def __init__(self) -> None:
        self.rows: dict[Model, SavedLoad] = {}
        self.saves = 0
        self.away = False

    async def list_all(self) -> dict[Model, SavedLoad]:
        if self.away:
            raise Unavailable("the database is away")
        return dict(self.rows)

    async def save(self, loads: Sequence[LoadToSave]) -> Mapping[Model, Load]:
        self.saves += 1
        saved = {}
        for load in loads:
            row = self.rows.get(load.model)
            if load.before == (row and row.load.id):
                self.rows[load.model] = SavedLoad(Load(load.id, NOW), load.executions)
                saved[load.model] = self.rows[load.model].load
        return saved
