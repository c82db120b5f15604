"""The model catalogue, read from the rows that dispatchers maintain. The gateway never talks to Triton."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from common.postgres.batcher import Batcher
from services.gateway.auth.model_permissions import Allowed, check_model, select_models
from services.gateway.http.problems import Problem
from services.gateway.http.validation.suggestions import list_names, suggest
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

        Raises Problem (403, 404, 409).
        """
        check_model(allowed, name)
        return choose(select_models(allowed, await self.read()), name, version)

    async def list_versions(self, name: str, *, allowed: Allowed = None) -> list[ModelVersion]:
        """Return a model's versions, oldest first. Raises Problem (403, 404)."""
        check_model(allowed, name)
        models = await self.read()
        if name not in models:
            raise unknown(f"model '{name}' not found", name, "models", list(select_models(allowed, models)))
        return models[name]

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

    Raises Problem: 404 with the known names, or 409 for a version whose inputs are unknown because Triton has never
    served it.
    """
    versions = models.get(name)
    if versions is None:
        raise unknown(f"model '{name}' not found", name, "models", list(models))
    found = newest(versions) if version is None else find_version(versions, version)
    if found is None:
        known = [each.version for each in versions]
        raise unknown(f"model '{name}' has no version '{version}'", str(version), "versions", known)
    if not found.declared:
        raise Problem(HTTPStatus.CONFLICT, "model_not_loaded", f"model '{name}' does not run. {found.reason}")
    return found


def newest(versions: Sequence[ModelVersion]) -> ModelVersion:
    """Return the newest ready version, or the newest that a Triton has served, or the newest."""
    return max(versions, key=lambda each: (each.ready, each.declared, order_version(each)))


def find_version(versions: Sequence[ModelVersion], version: str) -> ModelVersion | None:
    """Return the version, or the row that stands for all versions that Triton could not read."""
    rows = {each.version: each for each in versions}
    return rows.get(version) or rows.get("")


def order_version(row: ModelVersion) -> tuple[int, str]:
    return (int(row.version), "") if row.version.isdecimal() else (-1, row.version)


def unknown(what: str, name: str, kind: str, names: list[str]) -> Problem:
    known = list_names(names, "'") or "none (is a dispatcher running?)"
    meant = suggest(name, names)
    hint = f"did you mean '{meant}'? " if meant else ""
    return Problem(HTTPStatus.NOT_FOUND, "model_not_found", f"{what}; {hint}known {kind}: {known}")
