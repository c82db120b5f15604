"""Lets the Triton of a stack serve more models for a while."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg
import httpx

from deploy.local.errors import NotReady
from deploy.local.servers.model_control import READY
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.waiting import eventually

RETIRE = "UPDATE served_models SET missing_since = missing_since - interval '1 day' WHERE name = ANY($1::text[])"


@contextmanager
def more_models(stack: Stack, source: Path) -> Iterator[None]:
    """Copy the models of a folder into the stack's own folder of models. Nobody knows them afterwards."""
    folder = stack.settings.models
    assert folder is not None
    names = {model.name for model in source.iterdir() if model.is_dir()}
    for name in names:
        shutil.copytree(source / name, folder / name)
    try:
        stack.triton.models.load_new()
        asyncio.run(wait_for_models(stack, names, is_served))
        yield
    finally:
        for name in names:
            shutil.rmtree(folder / name)
        asyncio.run(forget(stack, names))


async def forget(stack: Stack, names: Collection[str]) -> None:
    """Unload models, and let them leave the catalogue, which otherwise takes an hour."""
    control, database = stack.triton.models, await asyncpg.connect(stack.postgres.url)

    async def is_gone(answer: httpx.Response) -> bool:
        with suppress(NotReady):  # Triton may be starting again
            for each in await asyncio.to_thread(control.list_models):
                if each.name in names and each.state == READY:
                    await asyncio.to_thread(control.unload, each.name)
        await database.execute(RETIRE, names)
        return answer.status_code == 404

    try:
        await wait_for_models(stack, names, is_gone)
    finally:
        await database.close()


async def is_served(answer: httpx.Response) -> bool:
    return answer.is_success and answer.json()["ready"] is True


async def wait_for_models(
    stack: Stack, names: Collection[str], is_reached: Callable[[httpx.Response], Awaitable[bool]]
) -> None:
    """Wait until the API answers so for each of the models."""
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}

    async def are_all() -> bool:
        return all([await is_reached(await http.get(f"/v1/models/{name}")) for name in names])

    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=45) as http:
        await eventually(are_all, f"the catalogue has, or no longer has, {', '.join(sorted(names))}")
