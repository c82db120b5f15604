"""Each service's role has the rights that its statements need, and no others."""

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from typing import TypeAlias

import asyncpg
import pytest

from common import ids
from common.errors import SettingsError
from common.postgres import sql, statements
from common.postgres.database import Database
from common.postgres.migrate import migrate
from common.postgres.roles import ROLES, name_role, parse_passwords
from deploy.local.servers.postgres import Postgres, connect_as, role_passwords
from tests.integration.common.postgres.test_queries import QUERIES, ROOT
from tests.integration.deliveries import EVENT
from tests.support.database.seed import add_subscribers
from tests.support.database.temporary import Databases

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
WHERE = "the section Rights of common/postgres/migrations/0001_schema.sql"
LEDGER = "schema_migrations"  # every new connection reads it: see check_schema
# Files of `common` by the roles whose services run them.
COMMON = {
    ("common", "known_files.sql"): ("dispatcher", "operator"),
    **{
        ("common.jobs", f"{verb}.sql"): ("gateway",)
        for verb in ("submit", "submit_reusing", "submit_run", "cancel", "retry", "erase")
    },
    **{("common.jobs", f"{verb}.sql"): ("gateway", "dispatcher") for verb in ("input_files", "run", "twins")},
    **{
        ("common.jobs", f"{verb}.sql"): ("dispatcher",)
        for verb in (
            "claim",
            "renew",
            "end",
            "requeue",
            "expire",
            "promote",
            "rescue",
            "remove",
            "forget_counted",
            "keep",
            "take_results",
        )
    },
    ("common.locations", "allowed.sql"): ("gateway", "dispatcher"),
    ("common.postgres", "audit_log.sql"): ("gateway", "notifier", "operator"),
    ("common.postgres", "database_metrics.sql"): ("dispatcher",),
    ("common.postgres", "leadership.sql"): ("gateway", "dispatcher", "notifier"),
    ("common.postgres", "standby_check.sql"): ("dispatcher",),
    **{
        ("common.runs", f"{name}.sql"): ("gateway", "dispatcher")
        for name in ("outputs", "pipelines", "step_inputs", "tensor_files")
    },
    ("common.views", "batch.sql"): ("gateway", "dispatcher"),
    ("common.views", "delivery.sql"): ("gateway", "notifier"),
}
# Statements of services.gateway that only commands run, and those that the gateway runs too.
OF_COMMANDS = {
    *sql.load("services.gateway.commands.reencrypt"),
    *sql.load("services.gateway.commands.limits"),
    *sql.load("services.gateway.commands.check_files"),
    *sql.load("services.gateway.commands.locations"),
    "list_keys",
    "revoke_key",
    "has_key",
    "set_max_queued",
    "find_max_queued",
    "list_whole_audit_log",
}
OF_BOTH = {"add_key", "add_tenant", "find_tenant", "list_audit_log"}
RELATIONS = """
SELECT c.oid, c.relname AS name, NOT EXISTS (
    SELECT FROM aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee WHERE r.rolname = ANY($1::text[])
  ) AND NOT EXISTS (
    SELECT
    FROM pg_attribute column_, aclexplode(column_.attacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE column_.attrelid = c.oid AND r.rolname = ANY($1::text[])
  ) AS forgotten
FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
  AND NOT c.relispartition -- whoever reads the table needs no right on its generations
ORDER BY c.relname
"""
GRANTS = """
SELECT c.relname AS name, a.privilege_type AS right, NULL AS column_name
FROM pg_class c, aclexplode(c.relacl) a
WHERE c.relnamespace = 'public'::regnamespace AND a.grantee = $1::text::regrole
UNION ALL
SELECT c.relname, a.privilege_type, column_.attname
FROM pg_class c JOIN pg_attribute column_ ON column_.attrelid = c.oid, aclexplode(column_.attacl) a
WHERE c.relnamespace = 'public'::regnamespace AND a.grantee = $1::text::regrole
ORDER BY 1, 2, 3
"""


def list_statements(role: str) -> dict[str, str]:
    """Return the statements that connections of a role run, by name."""
    service = "gateway" if role == "operator" else role
    own = {name: text for owner, name, text in QUERIES if owner == f"services.{service}"}
    if role == "operator":
        own = {name: own[name] for name in OF_COMMANDS | OF_BOTH}
    elif role == "gateway":
        own = {name: text for name, text in own.items() if name not in OF_COMMANDS}
    for file, roles in COMMON.items():
        own |= {name: each.text for name, each in statements.load(*file).items()} if role in roles else {}
    return own | {"check_schema": f"SELECT number, compatible_with FROM {LEDGER}"}  # noqa: S608 -- a constant


async def find_refused(connection: Connection, role: str, statements: Mapping[str, str]) -> dict[str, str]:
    """Return the errors of the statements that the role may not run, by name. To explain one needs the same rights."""
    refused = {}
    for name, statement in statements.items():
        nested = connection.transaction()
        await nested.start()
        try:
            await connection.execute(f"SET LOCAL ROLE {name_role(role)}")
            prepared = await connection.prepare(statement)
            await prepared.explain(*[None] * len(prepared.get_parameters()))
        except asyncpg.InsufficientPrivilegeError as error:
            refused[name] = str(error)
        finally:
            await nested.rollback()
    return refused


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Connection]:
    """The owner's connection to a migrated database."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


def test_every_file_of_statements_belongs_to_a_role() -> None:
    known = {name for file in COMMON for name in sql.load(*file)}
    missing = {name for owner, name, _ in QUERIES if owner == "common"} - known
    assert not missing, f"name the services that run {', '.join(sorted(missing))} in COMMON of this file"


@pytest.mark.parametrize("service", ["gateway", "dispatcher", "notifier"])
def test_a_service_has_the_rights_for_what_it_imports(service: str) -> None:
    code = f"import sys, services.{service}.__main__; print(*sys.modules)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    modules = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    imported = {file for file in COMMON if f"{file[0]}.{file[1].removesuffix('.sql')}" in modules}
    assert imported == {file for file, roles in COMMON.items() if service in roles}


async def test_every_table_and_view_has_rights(owner: Connection) -> None:
    relations = await owner.fetch(RELATIONS, [name_role(role) for role in ROLES])
    forgotten = [each["name"] for each in relations if each["forgotten"]]
    assert not forgotten, f"no service may use {', '.join(forgotten)}: add the grants to {WHERE}"


async def test_a_table_without_rights_is_found(owner: Connection) -> None:
    await owner.execute("CREATE TABLE added (id integer)")
    with pytest.raises(AssertionError, match="no service may use added: add the grants to the section Rights"):
        await test_every_table_and_view_has_rights(owner)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_run_the_statements_of_its_service(owner: Connection, role: str) -> None:
    refused = await find_refused(owner, role, list_statements(role))
    report = "\n".join(f"  {name}: {error}" for name, error in refused.items())
    assert not refused, f"{name_role(role)} may not run these statements; add the grants to {WHERE}:\n{report}"


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_has_no_right_that_its_statements_do_not_need(owner: Connection, role: str) -> None:
    needless, statements = [], list_statements(role)
    missing = await find_refused(owner, role, statements)
    for name, right, column in await owner.fetch(GRANTS, name_role(role)):
        touching = {key: text for key, text in statements.items() if name in text and key not in missing}
        subject = f"{right} ({column})" if column else right
        async with owner.transaction():
            await owner.execute(f"REVOKE {subject} ON {name} FROM {name_role(role)}")
            if not await find_refused(owner, role, touching):
                needless.append(f"{subject} ON {name}")
            await owner.execute(f"GRANT {subject} ON {name} TO {name_role(role)}")
    assert not needless, f"{name_role(role)} does not need {', '.join(needless)}: remove it from {WHERE}"


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("dispatcher", "SELECT secret FROM webhooks"),
        ("dispatcher", "SELECT webhook_secret FROM tenants"),
        ("dispatcher", "SELECT secrets FROM delivery_requests"),
        ("dispatcher", "SELECT key_hash FROM api_keys"),
        ("dispatcher", "UPDATE deliveries SET status = 'canceled'"),
        ("notifier", "SELECT key_hash FROM api_keys"),
        ("notifier", "SELECT tensors FROM jobs"),
        ("notifier", "SELECT outputs FROM jobs"),
        ("notifier", "UPDATE jobs SET status = 'queued'"),
        ("gateway", "DELETE FROM jobs"),
        ("gateway", "UPDATE api_keys SET revoked_at = NULL"),
        ("gateway", "UPDATE tenants SET max_queued = NULL"),
        ("operator", "SELECT tensors FROM jobs"),
        ("gateway", "CREATE TABLE public.mine (id integer)"),
        ("gateway", "DROP TABLE jobs"),
    ],
)
async def test_a_role_may_not_touch_what_is_not_its_own(owner: Connection, role: str, statement: str) -> None:
    await owner.execute(f"SET ROLE {name_role(role)}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owner.execute(statement)


async def test_roles_log_in_with_the_passwords_of_the_command(postgres: Postgres, database_url: str) -> None:
    assert await migrate(database_url, parse_passwords(role_passwords(database_url).split(","))) == []
    for role in ROLES:
        database = await Database.connect(connect_as(role, database_url), application="tests")
        (row,) = await database.fetch("SELECT current_user AS name")
        assert row["name"] == f"charonia_{role}"
        await database.close()


async def test_a_role_adds_events_with_their_deliveries_even_with_tables_of_the_same_names(
    owner: Connection, database: Database
) -> None:
    (subscriber,) = await add_subscribers(database, ["https://a.example/"], b"")
    await owner.execute("CREATE TEMP TABLE webhooks (LIKE public.webhooks)")
    await owner.execute(f"SET ROLE {name_role('dispatcher')}")
    await owner.execute(EVENT, ids.new(), subscriber.tenant_id, None, "echo", "job.started")
    assert len(await database.fetch("SELECT FROM deliveries")) == 1


async def test_an_owner_that_is_no_superuser_may_migrate(postgres: Postgres, databases: Databases) -> None:
    postgres.query("CREATE ROLE plain LOGIN PASSWORD 'secret'")
    async with databases.create() as url:
        postgres.query(f'ALTER DATABASE "{url.rpartition("/")[2]}" OWNER TO plain')
        login = f"postgresql://plain:secret@{url.rpartition('@')[2]}"
        assert await migrate(login) != []


async def test_a_login_without_rights_is_named(postgres: Postgres, database_url: str) -> None:
    postgres.query("CREATE ROLE charonia_nobody LOGIN PASSWORD 'secret'")
    url = connect_as("nobody", database_url).replace(
        role_passwords(database_url).partition("=")[2].partition(",")[0], "secret"
    )
    text = r"^CHARONIA_DATABASE_URL is wrong: permission denied for table schema_migrations\. Expected the role"
    with pytest.raises(SettingsError, match=text):
        await Database.connect(url, application="tests")


@pytest.mark.parametrize("items", [["gateway"], ["gateway="], ["nobody=x"], ["=x"], ["gateway=x", "gateway=y"]])
def test_wrong_passwords_are_refused_and_not_shown(items: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_ROLE_PASSWORDS is wrong: expected") as raised:
        parse_passwords(items)
    assert "=x" not in str(raised.value)
