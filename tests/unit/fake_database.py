"""A database whose answers are planned, for the verbs of `common.jobs`."""

from pathlib import Path
from typing import Any

import common.jobs
from common.postgres import sql
from common.postgres.database import Database
from common.postgres.statements import PARAMETER

(FOLDER,) = common.jobs.__path__
PARAMETERS = {
    name: dict.fromkeys(PARAMETER.findall(text))
    for file in Path(FOLDER).glob("*.sql")
    for name, text in sql.load("common.jobs", file.name).items()
}


class FakeDatabase(Database):
    """Answers each statement by the method of its name. A subclass has these methods.

    The parameter `:claims.id` is called `claims_id` there. There is no pool.
    """

    def __init__(self) -> None:
        pass

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        name = query.removeprefix("-- ").partition("\n")[0]
        named = zip((each.replace(".", "_") for each in PARAMETERS[name]), values, strict=True)
        rows: list[Any] = await getattr(self, name)(**dict(named))
        return rows
