"""Makes scheduled jobs claimable that are due."""

from common.job_states import Status
from common.jobs.announced import read_wake_up
from common.jobs.moves import Moves, stay
from common.postgres import statements
from common.postgres.database import Database, Settled
from common.postgres.statements import Executor
from common.rabbitmq.wake_ups import WakeUp

STATEMENTS = statements.load("common.jobs", "promote.sql")
MOVES = tuple(
    Moves(statement, stay(Status.QUEUED))
    for statement in ("promote_jobs", "return_suspects", "suspect_jobs", "promote_suspect")
)
SUSPECTED = 200  # jobs of a queue that become suspects at a time
LOCK = 0x0C4A201A_50524F42  # any number that nothing else locks


async def promote_jobs(executor: Executor, limit: int) -> list[WakeUp]:
    """Make scheduled jobs claimable that are due. Return their wake-ups, to be announced."""
    return [read_wake_up(each) for each in await STATEMENTS["promote_jobs"].run(executor, limit=limit)]


async def promote_suspect(database: Database, probation: float, interruptions: int) -> list[WakeUp]:
    """Make one suspected poison job claimable, if it may run now. Return its wake-up, to be announced.

    Jobs of tenants on probation become suspects for `probation` seconds, as after a number of interruptions.
    """
    (suspect,) = await STATEMENTS["find_suspect"].run(database)
    if not suspect["found"]:
        return []
    async with database.transaction() as connection:
        (lock,) = await STATEMENTS["lock_promotion"].run(connection, lock=LOCK)
        if not lock["locked"]:
            return []
        await STATEMENTS["return_suspects"].run(connection)
        values = {"limit": SUSPECTED, "probation": probation, "interruptions": interruptions}
        await STATEMENTS["suspect_jobs"].run(connection, **values)
        promoted = await Settled(connection).fetch(STATEMENTS["promote_suspect"].text)
        return [read_wake_up(each) for each in promoted]
