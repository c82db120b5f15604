"""Lets the Triton of a stack serve more models."""

import asyncio
import shutil
from pathlib import Path

import httpx

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.waiting import eventually


def add_models(stack: Stack, source: Path) -> None:
    """Copy the models of a folder into the stack's own folder of models. Return once they are served."""
    folder = stack.settings.models
    assert folder is not None
    names = {model.name for model in source.iterdir() if model.is_dir()}
    for name in names:
        shutil.copytree(source / name, folder / name)
    stack.triton.models.load_new()
    asyncio.run(wait_until_served(stack.url, names))


async def wait_until_served(url: str, names: set[str]) -> None:
    headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}

    async def are_served() -> bool:
        answers = [await http.get(f"/v1/models/{name}") for name in names]
        return all(answer.is_success and answer.json()["ready"] for answer in answers)

    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=45) as http:
        await eventually(are_served, "the models are served")
