"""The model catalogue, read from the rows that dispatchers keep. The gateway never talks to Triton."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from common.batching import Batcher
from services.gateway.errors import Problem
from services.gateway.store import ModelVersion, Store

FRESH_SECONDS = 1.0


class Catalogue:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.models: dict[str, list[ModelVersion]] = {}
        self.read_at = float("-inf")
        self.reads: Batcher[None, None] = Batcher(self.refresh, name="models")

    async def read(self) -> dict[str, list[ModelVersion]]:
        """Each model's versions, oldest first; at most FRESH_SECONDS old."""
        if not self.is_fresh:
            await self.reads.submit(None)
        return self.models

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.read_at <= FRESH_SECONDS

    async def refresh(self, readers: list[None]) -> list[None]:
        """One read for all who wait for it."""
        if not self.is_fresh:
            await self.load()
        return readers

    async def load(self) -> None:
        models: dict[str, list[ModelVersion]] = defaultdict(list)
        for row in await self.store.list_models():
            models[row.name].append(row)
        self.models = {name: sorted(versions, key=order_version) for name, versions in models.items()}
        self.read_at = time.monotonic()

    async def find(self, name: str, version: str | None = None) -> ModelVersion:
        """As `choose`, of what there is now."""
        return choose(await self.read(), name, version)


def choose(models: Mapping[str, Sequence[ModelVersion]], name: str, version: str | None = None) -> ModelVersion:
    """The version, or the newest that is ready, or the newest; raises Problem (404) naming what there is. Pure."""
    versions = models.get(name)
    if versions is None:
        raise unknown(f"there is no model '{name}'", "models", list(models))
    if version is None:
        return newest(versions)
    for each in versions:
        if each.version == version:
            return each
    raise unknown(f"model '{name}' has no version '{version}'", "versions", [each.version for each in versions])


def newest(versions: Sequence[ModelVersion]) -> ModelVersion:
    """Of those that are ready, or of all."""
    return next((each for each in reversed(versions) if each.ready), versions[-1])


def order_version(row: ModelVersion) -> tuple[int, str]:
    return (int(row.version), "") if row.version.isdecimal() else (-1, row.version)


def unknown(what: str, kind: str, names: list[str]) -> Problem:
    known = ", ".join(f"'{name}'" for name in names) or "none: is a dispatcher running?"
    return Problem(HTTPStatus.NOT_FOUND, "model_not_found", f"{what}; known {kind}: {known}")
