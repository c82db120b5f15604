"""The storm's models in half of the memory that they need."""

import asyncio
import shutil
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from deploy.local.settings import Settings
from deploy.local.stack import MODEL_MEMORY
from tests.storm import steady_load
from tests.storm.client import Client

TAKEN = 100_000_000  # bytes that each model declares
MAX_WAIT = "10"  # seconds: all models are in use, so each is loaded about once in this time
KNOWN_SECONDS = 120.0  # until each model was loaded once
POLL_SECONDS = 0.5
KEEP = '\nparameters { key: "charonia.keep" value { string_value: "true" } }\n'
MEMORY = '\nparameters { key: "charonia.memory" value { string_value: "%d" } }\n'


class Model(msgspec.Struct, frozen=True):
    name: str
    inputs: list[msgspec.Raw]
    """Empty until Triton has loaded it once."""


class Described(msgspec.Struct, frozen=True):
    items: list[Model]


def limit_memory(settings: Settings, folder: Path) -> Settings:
    """Return settings of a stack whose models declare their memory. There is half of it. `folder` gets the models."""
    shutil.copytree(settings.model_repository, folder, ignore=shutil.ignore_patterns("__pycache__"))
    models = list_models(folder)
    for model in models:
        with (folder / model / "config.pbtxt").open("a") as file:
            file.write(MEMORY % TAKEN)
            if model == steady_load.MODEL:
                # Its jobs measure the latency. Those of other models may wait for a load, for up to MAX_WAIT.
                file.write(KEEP)
    limits = {MODEL_MEMORY: str(len(models) * TAKEN // 2), "CHARONIA_MODEL_MAX_WAIT": MAX_WAIT}
    return replace(settings, model_repository=folder, environment={**settings.environment, **limits})


def list_models(folder: Path) -> set[str]:
    return {file.parent.name for file in folder.glob("*/config.pbtxt")}


async def wait_until_known(client: Client, names: set[str], gateways: int) -> None:
    """Return once each model was loaded, so that all gateways accept jobs for it. Raise TimeoutError if one is not."""
    deadline = time.monotonic() + KNOWN_SECONDS
    answers = 0  # in a row with all models; each gateway has a catalogue of its own
    while answers < gateways:
        missing = names - {model.name for model in (await client.read("/v1/models", Described)).items if model.inputs}
        answers = 0 if missing else answers + 1
        if time.monotonic() > deadline:
            raise TimeoutError(f"these models were not loaded: {', '.join(sorted(missing))}")
        await asyncio.sleep(POLL_SECONDS)
