"""What the planner of one Triton reads of its models."""

from common.postgres.database import Database
from common.postgres.leadership import LeaseStore
from services.dispatcher.models.store import ModelStore
from services.dispatcher.residency.store import Found, ResidencyStore
from services.dispatcher.triton.model_version import ModelVersion

KEPT = ModelVersion("ocr", "1", False, 0, 1, [], [], {"charonia.keep": "true"})


async def find(store: ResidencyStore, model: str) -> Found:
    _, (found,) = await store.list_models([model])
    return found


async def test_a_load_elsewhere_counts_while_somebody_leads_there(database: Database) -> None:
    """A Triton that died during a load, or whose dispatchers did, would keep the model from all others."""
    near, far = ResidencyStore(database, "near:1", "w"), ResidencyStore(database, "far:1", "v")
    for store in (near, far):
        await store.join(["*"], 1000)
    await database.fetch("INSERT INTO residencies (server, name, phase) VALUES ('far:1', 'ocr', 'loading')")
    assert (await find(near, "ocr")).elsewhere == 0
    assert (await LeaseStore(database, far.role).acquire()).held
    assert (await find(near, "ocr")).elsewhere == 1
    assert (await find(far, "ocr")).elsewhere == 0
    for change in ("is_fit = false", "is_fit = true, expires_at = now() - interval '1 second'"):
        await database.fetch(f"UPDATE leader_leases SET {change} WHERE role = $1", far.role)  # noqa: S608 -- a constant
        assert (await find(near, "ocr")).elsewhere == 0


async def test_a_paused_model_is_neither_kept_nor_learned(database: Database) -> None:
    store = ResidencyStore(database, "near:1", "w")
    await ModelStore(database, "w").save_models([(KEPT, True)])
    assert ((await find(store, "ocr")).row.keep, (await find(store, "new")).is_known) == (True, False)
    await database.fetch("INSERT INTO model_limits (model, paused_at) VALUES ('ocr', now()), ('new', now())")
    assert ((await find(store, "ocr")).row.keep, (await find(store, "new")).is_known) == (False, True)
