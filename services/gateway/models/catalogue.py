"""The model catalogue, read from the rows that dispatchers maintain. The gateway never talks to Triton."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from common.postgres.batcher import Batcher
from services.gateway.auth.model_permissions import Allowed, check_model, select_models
from services.gateway.http.problems import Problem
from services.gateway.http.suggestions import list_names, suggest
from services.gateway.models.store import ModelStore, ModelVersion

FRESH_SECONDS = 1.0


class Catalogue:
    """All models, at most FRESH_SECONDS old."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store
        self._models: dict[str, list[ModelVersion]] = {}
        self._read_at = float("-inf")
        self._reads: Batcher[None, None] = Batcher(self._refresh, name="models")

    async def read(self) -> dict[str, list[ModelVersion]]:
        """Return each model's versions, oldest first."""
        if not self._is_fresh:
            await self._reads.submit(None)
        return self._models

    async def find(self, name: str, version: str | None = None, *, allowed: Allowed = None) -> ModelVersion:
        """Return a version, chosen as `choose` does, for a key that may run only `allowed` models.

        Raises Problem (403, 404).
        """
        check_model(allowed, name)
        return choose(select_models(allowed, await self.read()), name, version)

    @property
    def _is_fresh(self) -> bool:
        return time.monotonic() - self._read_at <= FRESH_SECONDS

    async def _refresh(self, readers: list[None]) -> list[None]:
        """Read once for all readers that wait."""
        if not self._is_fresh:
            await self._load()
        return readers

    async def _load(self) -> None:
        models: dict[str, list[ModelVersion]] = defaultdict(list)
        for row in await self._store.list_models():
            models[row.name].append(row)
        self._models = {name: sorted(versions, key=order_version) for name, versions in models.items()}
        self._read_at = time.monotonic()


def choose(models: Mapping[str, Sequence[ModelVersion]], name: str, version: str | None = None) -> ModelVersion:
    """Return the version, or by default the newest ready one, or the newest. Pure.

    Raises Problem (404) with the known names.
    """
    versions = models.get(name)
    if versions is None:
        raise unknown(f"model '{name}' not found", name, "models", list(models))
    if version is None:
        return newest(versions)
    for each in versions:
        if each.version == version:
            return each
    known = [each.version for each in versions]
    raise unknown(f"model '{name}' has no version '{version}'", version, "versions", known)


def newest(versions: Sequence[ModelVersion]) -> ModelVersion:
    """Return the newest ready version, or the newest."""
    return next((each for each in reversed(versions) if each.ready), versions[-1])


def order_version(row: ModelVersion) -> tuple[int, str]:
    return (int(row.version), "") if row.version.isdecimal() else (-1, row.version)


def unknown(what: str, name: str, kind: str, names: list[str]) -> Problem:
    known = list_names(names, "'") or "none (is a dispatcher running?)"
    meant = suggest(name, names)
    hint = f"did you mean '{meant}'? " if meant else ""
    return Problem(HTTPStatus.NOT_FOUND, "model_not_found", f"{what}; {hint}known {kind}: {known}")
