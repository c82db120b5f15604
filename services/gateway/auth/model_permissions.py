"""Model permissions: which models an API key may run, as patterns such as `ocr*`. Pure."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias, TypeVar

from services.gateway.http.problems import forbidden

MAX_SHOWN = 20  # patterns in an error
Allowed: TypeAlias = Sequence[str] | None  # patterns; None: every model
T = TypeVar("T")


def may_run(allowed: Allowed, model: str) -> bool:
    """Return whether a key with these patterns may run the model."""
    return allowed is None or any(fnmatchcase(model, pattern) for pattern in allowed)


def check_model(allowed: Allowed, model: str) -> None:
    """Raise Problem (403) if a key with these patterns may not run the model, whether or not the model exists."""
    if allowed is not None and not may_run(allowed, model):
        own = ", ".join(f"'{pattern}'" for pattern in allowed[:MAX_SHOWN])
        text = f"this call needs a key for the model '{model}'; the key has {own}"
        raise forbidden(text)


def select_models(allowed: Allowed, models: Mapping[str, T]) -> Mapping[str, T]:
    """Return those of the models that a key with these patterns may run."""
    if allowed is None:
        return models
    return {name: model for name, model in models.items() if may_run(allowed, name)}
