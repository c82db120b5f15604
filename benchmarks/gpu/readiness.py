"""Waits for the models: a large one with PyTorch takes longer to load than those of the demo."""

import time
from collections.abc import Mapping
from typing import Any

import httpx

from benchmarks.gpu.repository import DECODER, VISION
from benchmarks.gpu.sizes import Size
from benchmarks.harness.bench import BenchmarkFailed
from deploy.local.servers.model_control import LOADING
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack

LOAD_SECONDS = 300.0
KNOWN_SECONDS = 30.0  # until all gateways and dispatchers know the models
POLL_SECONDS = 0.2
HEADERS = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}


def await_models(stack: Stack) -> None:
    """Return when Triton has loaded its models; raise BenchmarkFailed, with its reasons, if it cannot."""
    deadline = time.monotonic() + LOAD_SECONDS
    while any(each.state == LOADING for each in stack.triton.models.list_models()) and time.monotonic() < deadline:
        stack.check()
        time.sleep(POLL_SECONDS)
    if problems := stack.triton.find_problems():
        reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(problems.items()))
        python = stack.settings.models_python or stack.settings.triton_venv
        raise BenchmarkFailed(f"{reasons}. The models need PyTorch: install torch into {python}, or set MODELS_PYTHON")


def await_slots(stack: Stack, size: Size) -> None:
    """Return when each gateway knows that all dispatchers run both models; raise BenchmarkFailed if that takes long."""
    wanted = count_slots(size, len(stack.dispatchers))
    for gateway in stack.gateways:
        deadline = time.monotonic() + KNOWN_SECONDS
        while (found := read_slots(_read_models(gateway.url))) != wanted:
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"{gateway.url}/v1/models has the slots {found}; expected were {wanted}")
            time.sleep(POLL_SECONDS)


def count_slots(size: Size, dispatchers: int) -> dict[str, int]:
    """Return how many jobs of each model so many dispatchers run at a time: each, twice what Triton does."""
    return {DECODER: 2 * size.streams * dispatchers, VISION: 2 * size.batch * size.instances * dispatchers}


def read_slots(models: list[Mapping[str, Any]]) -> dict[str, int]:
    """Return the slots of the models that are ready."""
    return {each["name"]: each["slots"] for each in models if each["ready"]}


def _read_models(url: str) -> list[Mapping[str, Any]]:
    answer = httpx.get(f"{url}/v1/models", headers=HEADERS, trust_env=False).raise_for_status()
    found: list[Mapping[str, Any]] = answer.json()["items"]
    return found
