"""Loads and unloads models of a Triton in the mode `explicit`, and says in which states they are."""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from tritonclient.grpc import service_pb2 as pb

from services.dispatcher.triton.client import TritonClient
from services.dispatcher.triton.declared_memory import read_memory
from services.dispatcher.triton.errors import TritonUnavailable, clean_message
from services.dispatcher.triton.model_version import read_settings
from services.dispatcher.triton.unloaded import MAX_REASON, UNLOADED, hide_folders

CALL_SECONDS = 10.0  # for an unload to begin; what runs ends first
# Words in the error of a load that lacked memory: of CUDA, of PyTorch and TensorFlow, of Python, of C++ and of Linux.
MEMORY = re.compile(
    r"out of memory|\boom\b|memoryerror|bad_alloc|(cannot|failed to) allocate|(insufficient|not enough) memory",
    re.IGNORECASE,
)


class State(IntEnum):
    """What Triton's index says of a model. Of several versions, the highest state counts."""

    ABSENT = 0
    UNLOADING = 1
    LOADING = 2
    READY = 3


class ModelState(NamedTuple):
    """`reason`: why the last load failed, if it did. `is_untouched`: nobody has loaded it since Triton was started."""

    state: State
    reason: str | None = None
    is_untouched: bool = False


class ModelControl:
    def __init__(self, triton: TritonClient) -> None:
        self._triton = triton

    async def read_states(self) -> dict[str, ModelState]:
        """Return the state of each model of the repository. Raises TritonUnavailable."""
        index = await self._triton.ask("RepositoryIndex", pb.RepositoryIndexRequest())
        return read_states(index.models)

    async def load(self, model: str) -> None:
        """Load a model, and return when it is ready. Raises TritonUnavailable."""
        await self._triton.load(model)

    async def has_declared_memory(self, model: str) -> bool:
        """Return whether a loaded model declares what it takes. Raises TritonUnavailable."""
        answer = await self._triton.ask("ModelConfig", pb.ModelConfigRequest(name=model))
        return read_memory(read_settings(answer.config)) is not None

    async def unload(self, model: str) -> None:
        """Begin to unload a model. Triton lets what runs end first. Raises TritonUnavailable."""
        await self._triton.ask("RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name=model), CALL_SECONDS)


def read_states(index: Iterable[Any]) -> dict[str, ModelState]:
    """Return the state of each model of an index. Hidden folders that nobody loaded are no models."""
    found: dict[str, ModelState] = {}
    for each in index:
        if not each.state and each.name.startswith("."):
            continue
        state = State[each.state] if each.state in State.__members__ else State.ABSENT
        failed = state is State.ABSENT and each.reason and each.reason != UNLOADED
        seen = ModelState(state, clean_reason(each.reason) if failed else None, not each.state)
        before = found.get(each.name, seen)
        found[each.name] = max(before, seen, key=lambda one: (one.state, one.reason is not None))
    return found


def clean_reason(text: str) -> str:
    """Return Triton's reason without folders of the server: clients see it."""
    return hide_folders(clean_message(text))[:MAX_REASON]


def lacks_memory(error: TritonUnavailable) -> bool:
    """Return whether a load failed for lack of memory."""
    return MEMORY.search(str(error)) is not None
