"""A search for text in every column of a database."""

import asyncpg

COLUMNS = """
SELECT table_name, column_name, data_type
FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
JOIN pg_class ON pg_class.oid = table_name::regclass AND NOT relispartition
WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
  AND (data_type IN ('bytea', 'text', 'character varying', 'json', 'jsonb', 'ARRAY'))
ORDER BY table_name, ordinal_position
"""


async def find_columns(connection: "asyncpg.Connection[asyncpg.Record]", text: str) -> list[str]:
    """Return each `table.column` with a value that contains this text."""
    found = []
    for table, column, kind in [tuple(record) for record in await connection.fetch(COLUMNS)]:
        value, needle = ("{}", "$1::text::bytea") if kind == "bytea" else ("{}::text", "$1::text")
        haystack = value.format(f'"{column}"')
        if await connection.fetchval(
            f'SELECT EXISTS (SELECT FROM "{table}" WHERE position({needle} IN {haystack}) > 0)',  # noqa: S608 -- our names
            text,
        ):
            found.append(f"{table}.{column}")
    return found
