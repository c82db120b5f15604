"""What a model's config.pbtxt says about the memory that it takes in Triton. Pure."""

from collections.abc import Mapping

from common.byte_sizes import EXPECTED, parse_bytes
from services.dispatcher.triton.model_version import ModelVersion

MEMORY = "charonia.memory"  # the parameter with the bytes that the model takes while it is loaded
KEEP = "charonia.keep"  # the parameter that keeps a model loaded
KEPT, NOT_KEPT = "true", "false"


def read_memory(settings: Mapping[str, str]) -> int | None:
    """Return the bytes that a model declares. None: it declares none, or no size that can be read."""
    return parse_bytes(settings.get(MEMORY, ""))


def read_keep(settings: Mapping[str, str]) -> bool:
    """Return whether a model is never unloaded to make room."""
    return settings.get(KEEP) == KEPT


def find_wrong_settings(model: ModelVersion) -> dict[str, str]:
    """Return what is expected of each of the two settings that cannot be read, by its name. It has no effect."""
    wrong = {}
    if MEMORY in model.settings and read_memory(model.settings) is None:
        wrong[MEMORY] = EXPECTED
    if model.settings.get(KEEP, KEPT) not in (KEPT, NOT_KEPT):
        wrong[KEEP] = f"{KEPT} or {NOT_KEPT}"
    return wrong
