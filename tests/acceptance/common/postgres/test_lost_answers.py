"""PostgreSQL commits a statement, and its answer is lost. That happens to every statement of the services."""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from deploy.local.processes.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY, REPOSITORY_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from services.dispatcher.quarantines.shared_quarantine import name_server
from tests.support.lost_answers import (
    command_scenarios,
    job_scenarios,
    maintenance_scenarios,
    notifier_scenarios,
    openai_scenarios,
    pipeline_scenarios,
    residency_scenarios,
    reuse_scenarios,
    webhook_scenarios,
)
from tests.support.lost_answers.check import find_violations, wait_until_quiet
from tests.support.lost_answers.job_scenarios import LARGE
from tests.support.lost_answers.proxy import AnswerLoser
from tests.support.lost_answers.statements import list_statements
from tests.support.lost_answers.world import World, open_client
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.s3.server import S3
from tests.support.stacks.broker_connection import wait_for_broker
from tests.support.stacks.key_command import make_key
from tests.support.waiting import eventually

ENVIRONMENT = {
    "CHARONIA_DELIVERY_SCHEDULE": "0,0.3,0.3",
    "CHARONIA_DELIVERY_TIMEOUT": "1",
    "CHARONIA_INLINE_INPUT_BYTES": "2048",
    "CHARONIA_INLINE_OUTPUT_BYTES": "2048",
    "CHARONIA_LEASE": "3",
    "CHARONIA_LOG_FORMAT": "json",
    "CHARONIA_MODEL_GRACE": "600",
    "CHARONIA_MODEL_MEMORY": "1 TB",
}

Scenario = Callable[[World], Awaitable[None]]
SILENT = ("common/jobs: claim_jobs", "notifier/delivery_attempts: record_successes")
SCENARIOS: Sequence[Scenario] = (
    *job_scenarios.SCENARIOS,
    *webhook_scenarios.SCENARIOS,
    *command_scenarios.SCENARIOS,
    *maintenance_scenarios.SCENARIOS,
    *notifier_scenarios.SCENARIOS,
    *pipeline_scenarios.SCENARIOS,
    *openai_scenarios.SCENARIOS,
    *reuse_scenarios.SCENARIOS,
    *residency_scenarios.SCENARIOS,
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings.private(tmp_path_factory.mktemp("lost_answers"))


@pytest.fixture(scope="module")
def loser(settings: Settings) -> Iterator[AnswerLoser]:
    (port,) = free_ports(1)
    with AnswerLoser(settings.postgres_port, port, list_statements()) as loser:
        yield loser


@pytest.fixture(scope="module")
def stack(stack: Stack, settings: Settings, loser: AnswerLoser, s3: S3) -> Iterator[Stack]:
    """A PostgreSQL and services of their own. They share the other servers with all tests."""
    s3.create_bucket("own")
    s3.create_bucket("tenants")
    shared = {
        "CHARONIA_AMQP_URL": stack.rabbitmq.create_vhost("lost_answers"),
        "CHARONIA_TRITON_URL": stack.triton.grpc_address,
        REPOSITORY_KEY: stack.triton.repository_key,
    }
    url = Stack(settings).postgres.url.replace(f"{HOST}:{settings.postgres_port}", f"{HOST}:{loser.port}")
    places = {"CHARONIA_STORE_URL": "s3://own/files", "CHARONIA_DATABASE_URL": url}
    own = Stack(replace(settings, environment=ENVIRONMENT | s3.environment | shared | places))
    own.rabbitmq, own.triton = stack.rabbitmq, stack.triton
    try:
        own.postgres.start()
        own.migrate()
        asyncio.run(measure_models(own))
        own.start_services()
        wait_for_broker(*own.gateways)
        yield own
    finally:
        for member in (*own.services, own.postgres):
            member.stop()
        own.postgres.delete()


async def measure_models(stack: Stack) -> None:
    """Let the dispatcher know what the models take. It would unload some to learn that, because it cannot be sure."""
    server = name_server(stack.triton.grpc_address, socket.gethostname())
    names = [folder.name for folder in stack.settings.model_repository.iterdir() if folder.is_dir()]
    connection = await asyncpg.connect(stack.postgres.url)
    await connection.execute(
        "INSERT INTO residencies (server, name, phase, measured) SELECT $1, unnest($2::text[]), 'absent', 1000000",
        server,
        names,
    )
    await connection.close()


@pytest.fixture(scope="module", autouse=True)
def credentials(s3: S3) -> Iterator[None]:
    """Let this process use the object store, too."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in s3.environment.items():
            patch.setenv(variable, value)
        yield


@pytest.fixture(scope="module")
async def world(loser: AnswerLoser, stack: Stack, receiver: Receiver) -> AsyncIterator[World]:
    own = await asyncpg.create_pool(stack.postgres.url, min_size=1, max_size=4)
    for paused in ("ocr", "ocr_stream"):
        await own.execute(
            "INSERT INTO model_limits (model, paused_at) VALUES ($1, now()) ON CONFLICT DO NOTHING", paused
        )
    await asyncio.to_thread(restart_dispatcher, stack)
    name = f"other-{uuid.uuid4().hex[:8]}"
    limited = await make_key(stack, "default", "--rate-limit", "500", "--model", "*")
    other, removed = await make_key(stack, name), await make_key(stack, f"{name}-removed")
    removed_id = await own.fetchval("SELECT id FROM tenants WHERE name = $1", f"{name}-removed")
    await own.execute(
        "INSERT INTO allowed_locations SELECT id, 'tenants', 'out/', true, true FROM tenants ON CONFLICT DO NOTHING"
    )
    async with (
        open_client(stack, DEVELOPMENT_KEY) as client,
        open_client(stack, limited) as with_limit,
        open_client(stack, other) as of_other,
        open_client(stack, removed) as of_removed,
    ):
        yield World(stack, loser, receiver, own, client, with_limit, of_other, of_removed, removed_id, "tenants")
    await own.close()


def restart_dispatcher(stack: Stack) -> None:
    """Let the dispatcher know what the tables have now. It claims no job before it has read them."""
    (dispatcher,) = stack.dispatchers
    dispatcher.stop()
    dispatcher.launch()
    dispatcher.wait_ready()


async def test_no_lost_answer_breaks_a_promise(world: World) -> None:
    statements = list_statements()
    world.loser.arm(statements)
    await run(world, SCENARIOS)
    await world.client.get("/v1/usage")
    await wait_until_lost(world, statements)
    await check_promises(world)


async def test_silence_breaks_no_promise(world: World) -> None:
    """The server answers, and nothing comes until the deadline of the statement: 15 s."""
    world.loser.arm(SILENT, silent=True)
    await job_scenarios.submit_many(world)
    await check_promises(world)
    assert world.loser.list_missing(SILENT) == []


async def wait_until_lost(world: World, statements: Collection[str]) -> None:
    """Wait for services that do something by themselves after the scenarios."""

    async def is_lost() -> bool:
        return not world.loser.list_missing(statements)

    with contextlib.suppress(AssertionError):
        await eventually(is_lost, "an answer of each statement is lost")
    assert world.loser.list_missing(statements) == []


async def run(world: World, scenarios: Sequence[Scenario]) -> None:
    """Run scenarios at the same time. Raise what any of them raised once all have ended."""
    ended = await asyncio.gather(*(scenario(world) for scenario in scenarios), return_exceptions=True)
    if errors := [each for each in ended if isinstance(each, Exception)]:
        raise ExceptionGroup("scenarios failed", errors)


async def check_promises(world: World) -> None:
    await wait_until_quiet(world)
    violations = await find_violations(world)
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    ("statement", "path", "options"),
    [
        ("gateway/files: begin_upload", "/v1/files", {"content": b"x" * 5000}),
        ("gateway/files: begin_upload", "/v1/files/presign", {"json": {"size": 5000}}),
        ("gateway/jobs/inputs: begin_large_inputs", "/v1/jobs", {"json": {"model": "echo", "inputs": LARGE}}),
    ],
)
async def test_an_upload_whose_begin_was_lost_does_not_count(
    world: World, statement: str, path: str, options: dict[str, Any]
) -> None:
    """Its client does not know of it. Once, it counted in the quota until its lease ended."""
    world.loser.arm([statement])
    while world.loser.list_missing([statement]):
        response = await world.removed.http.post(path, **options)
        assert response.status_code == 503, response.text
    left = "SELECT size FROM files WHERE tenant_id = $1 AND status = 'uploading'"
    assert await world.read(left, world.removed_id) == []
