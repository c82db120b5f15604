"""The roles of the database: one for each service, and one for the commands of operators.

The schema creates them with their rights, at the end of migrations/0001_schema.sql. Here they get passwords.
"""

from collections.abc import Mapping, Sequence

import asyncpg

from common.errors import SettingsError

ROLES = ("gateway", "dispatcher", "notifier", "operator")
_SET_PASSWORD = "SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', $1::text, $2::text)"  # noqa: S105 -- a statement


def name_role(service: str) -> str:
    """Return the name of a service's role."""
    return f"charonia_{service}"


def parse_passwords(items: Sequence[str]) -> dict[str, str]:
    """Return the password of each role from texts such as `gateway=secret`. Raise SettingsError for others."""
    passwords = dict(item.partition("=")[::2] for item in items)
    if not all(role in ROLES and password for role, password in passwords.items()) or len(passwords) < len(items):
        raise SettingsError(
            f"CHARONIA_ROLE_PASSWORDS is wrong: expected each of {', '.join(ROLES)} once at most, as gateway=password"
        )
    return passwords


async def set_passwords(connection: "asyncpg.Connection[asyncpg.Record]", passwords: Mapping[str, str]) -> None:
    """Let roles log in with these passwords."""
    for role, password in passwords.items():
        await connection.execute(await connection.fetchval(_SET_PASSWORD, name_role(role), password))
