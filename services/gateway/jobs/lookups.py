"""Looks up what submits refer to besides models: pipelines and files."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar
from uuid import UUID

from common.locations.location import Location
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.parse import NeedsFiles, SubmitContext
from services.gateway.jobs.runs.parse import NeedsPipeline, to_runnable
from services.gateway.models.pipeline_store import PipelineKey, PipelineReader

T = TypeVar("T")


class Lookups:
    def __init__(self, files: InputFiles, pipelines: PipelineReader) -> None:
        self.files = files
        self._pipelines = pipelines

    async def parse(self, parse: Callable[[SubmitContext], Awaitable[T]], context: SubmitContext) -> T:
        """Return what `parse` returns. Each time that it needs something, look that up and call it again.

        It decodes the body again then. To keep what it decoded, a worker process would have to send that here and get
        it back, which takes the event loop longer than a second decoding takes the worker.

        Raises what `parse` raises, Problem (503) and Unavailable.
        """
        while True:
            pipelines: Collection[PipelineKey] = ()
            files: Mapping[UUID | Location, bool] = {}
            try:
                return await parse(context)
            except NeedsPipeline as needed:
                pipelines = [needed.key]
            except NeedsFiles as needed:
                files = needed.files
            context = await self.add_to(context, pipelines, files)

    async def add_to(
        self, context: SubmitContext, pipelines: Collection[PipelineKey], files: Mapping[UUID | Location, bool]
    ) -> SubmitContext:
        """Return the context with those of the pipelines and files that its tenant has.

        Pipelines come first: the files that an input needs are not known before. Raises as `parse` does.
        """
        if pipelines:
            return await self._add_pipelines(context, pipelines)
        return await self.files.add_to(context, files)

    async def _add_pipelines(self, context: SubmitContext, keys: Collection[PipelineKey]) -> SubmitContext:
        """Return the context with those of the pipelines that there are, and the newest version of each."""
        wanted = {*keys, *(PipelineKey(key.name) for key in keys)}
        found = await self._pipelines.find_many(context.tenant_id, wanted)
        known = {key: to_runnable(found[key]) if key in found else None for key in wanted}
        return context._replace(pipelines={**context.pipelines, **known})
