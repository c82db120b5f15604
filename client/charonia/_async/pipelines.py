"""The tenant's pipelines: several models in a row."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from charonia._async.pages import list_pages
from charonia._async.resources import AsyncModels
from charonia._async.transport import AsyncTransport
from charonia.calls import Call, get
from charonia.paths import make_path
from charonia.pipeline_schemas import CheckedPipeline, PipelineData


class AsyncPipelines:
    """The tenant's pipelines. A job whose `model` is a pipeline is a run of it."""

    def __init__(self, transport: AsyncTransport, models: AsyncModels) -> None:
        self._transport = transport
        self._models = models

    async def put(self, name: str, definition: Mapping[str, Any]) -> PipelineData:
        """Store a version of a pipeline, and return it. The newest version stays if it has the same definition.

        Raise InvalidRequest with every fault of the definition, and Conflict if a model has this name.
        """
        stored = await self._transport.call(self._send("PUT", make_path("pipelines", name), definition), PipelineData)
        self._models._forget(name)
        return stored

    async def check(self, name: str, definition: Mapping[str, Any]) -> CheckedPipeline:
        """Check a definition as `put` does, without storing it. Return what the pipeline would take and make."""
        return await self._transport.call(
            self._send("POST", make_path("pipelines", name, "/check"), definition), CheckedPipeline
        )

    async def get(self, name: str, *, version: str | None = None) -> PipelineData:
        """Return a pipeline, by default its newest version. Raise NotFound."""
        return await self._transport.call(get(make_path("pipelines", name), {"version": version}), PipelineData)

    async def list(self) -> AsyncGenerator[PipelineData, None]:
        """Yield the newest version of each pipeline, by name."""
        async for pipeline in list_pages(self._transport, "/v1/pipelines", PipelineData):
            yield pipeline

    async def delete(self, name: str) -> None:
        """Delete a pipeline with all its versions. Its runs go on. Raise NotFound."""
        await self._transport.send(Call("DELETE", make_path("pipelines", name), repeatable=False))
        self._models._forget(name)

    def _send(self, method: str, path: str, definition: Mapping[str, Any]) -> Call:
        body = msgspec.json.encode(definition)
        return Call(method, path, body=body, headers={"Content-Type": "application/json"})
