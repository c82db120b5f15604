"""The model catalogue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar import Request, Router, get
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation

from common.job_states import Priority
from common.reuse.choice import read_default
from common.tensors import Signature
from common.views.job import format_optional_time
from services.gateway.auth.model_permissions import may_run, select_models
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.problems import ANY_CALL, WITH_ID, document
from services.gateway.models.catalogue import Catalogue, newest
from services.gateway.models.pipeline_store import PipelineKey, PipelineReader
from services.gateway.models.pipelines import find_runnable, to_model
from services.gateway.models.queue_depths import Counts, QueueDepths
from services.gateway.models.schemas import (
    MemoryView,
    ModelDetails,
    ModelList,
    ModelView,
    Percentiles,
    RecentView,
    ResidencyView,
    TensorView,
    TritonTimes,
    VersionView,
)
from services.gateway.models.store import ModelStore, ModelVersion, Recent, Residency, Workload
from services.gateway.models.workloads import WorkloadReader, Workloads


@dataclass(frozen=True)
class ModelServices:
    """What the model routes need."""

    catalogue: Catalogue
    pipelines: PipelineReader
    queue_depths: QueueDepths
    workloads: WorkloadReader
    store: ModelStore
    max_tensor: int  # bytes


Caller = Request[Key, Any, Any]
Services = NamedDependency[SkipValidation[ModelServices]]


@get("/", summary="List models", operation_id="list_models", **needs(Scope.READ), responses=document(*ANY_CALL))
async def list_models(request: Caller, services: Services) -> ModelList:
    """Return the models and the pipelines that your key may run."""
    catalogue = await services.catalogue.read()
    models = select_models(request.user.models, catalogue)
    queued, workloads = await services.queue_depths.read(), await services.workloads.read()
    most = services.max_tensor
    views = {name: view_model(versions, queued, workloads, most) for name, versions in models.items()}
    for stored in await services.pipelines.list_newest(request.user.tenant_id):
        if stored.name not in catalogue and may_run(request.user.models, stored.name):
            views[stored.name] = view_pipeline(to_model(stored, catalogue), most)
    memory = None if workloads.memory is None else MemoryView(*workloads.memory)
    return ModelList([view for _, view in sorted(views.items())], next_cursor=None, memory=memory)


@get("/{name:str}", summary="Get a model", operation_id="get_model", **needs(Scope.READ), responses=document(*WITH_ID))
async def get_model(request: Caller, name: str, services: Services) -> ModelDetails:
    """Return the model or the pipeline, its queue and its slots, and how long your recent jobs waited and ran.

    `triton` splits the time on Triton into its own queue and the computation. Triton reports both for the whole model,
    not for a single job.
    """
    workloads = await services.workloads.read()
    pipeline = await find_runnable(services.pipelines, request.user, PipelineKey(name), await services.catalogue.read())
    if pipeline is None:
        versions = await services.catalogue.list_versions(name, allowed=request.user.models)
        view = view_model(versions, await services.queue_depths.read(), workloads, services.max_tensor)
    else:
        view = view_pipeline(pipeline, services.max_tensor)
    recent = view_recent(await services.store.measure_recent(request.user.tenant_id, name))
    return ModelDetails(**msgspec.structs.asdict(view), recent=recent, triton=view_times(workloads.models.get(name)))


def view_times(workload: Workload | None) -> TritonTimes:
    times = (workload.queue_ms, workload.compute_ms) if workload else (None, None)
    return TritonTimes(*(None if time is None else round(time, 1) for time in times))


def view_recent(recent: Recent) -> RecentView:
    return RecentView(recent.jobs, view_percentiles(recent.queue_ms), view_percentiles(recent.inference_ms))


def view_percentiles(values: Sequence[float] | None) -> Percentiles:
    return Percentiles(*(round(value) for value in values)) if values else Percentiles(None, None)


def view_model(versions: Sequence[ModelVersion], queued: Counts, workloads: Workloads, max_tensor: int) -> ModelView:
    model = newest(versions)
    workload = workloads.models.get(model.name)
    return ModelView(
        kind="model",
        name=model.name,
        ready=model.ready,
        streaming=model.decoupled,
        max_batch_size=model.max_batch_size,
        reason=find_reason(versions),
        versions=[VersionView(each.version, each.ready, each.reason) for each in versions if each.version],
        inputs=view_tensors(model.inputs, max_tensor),
        outputs=view_tensors(model.outputs),
        queue={priority: queued.get((model.name, priority), 0) for priority in Priority},
        slots=workload.slots if workload else 0,
        running=workloads.running.get(model.name, 0),
        paused=model.paused,
        max_running=model.max_running,
        max_running_per_tenant=model.max_running_per_tenant,
        reuse_seconds=read_default(model.settings),
        loaded_at=format_optional_time(model.loaded_at),
        residency=view_residency(workloads.residencies.get(model.name)),
    )


def view_residency(found: Residency | None) -> ResidencyView | None:
    if found is None:
        return None
    return ResidencyView(
        state=found.state,
        memory=found.memory,
        load_seconds=None if found.load_seconds is None else round(found.load_seconds, 3),
        place=found.place,
        expected_at=format_optional_time(found.expected_at),
        why=found.why,
    )


def view_pipeline(pipeline: ModelVersion, max_tensor: int) -> ModelView:
    return ModelView(
        kind="pipeline",
        name=pipeline.name,
        ready=pipeline.ready,
        streaming=False,
        max_batch_size=None,
        reason=pipeline.reason,
        versions=[VersionView(pipeline.version, pipeline.ready, pipeline.reason)],
        inputs=view_tensors(pipeline.inputs, max_tensor),
        outputs=view_tensors(pipeline.outputs),
        queue=None,
        slots=None,
        running=None,
        paused=False,
        max_running=None,
        max_running_per_tenant=None,
        reuse_seconds=None,
        loaded_at=None,
        residency=None,
    )


def find_reason(versions: Sequence[ModelVersion]) -> str | None:
    """Return why a model does not run: the newest known reason of a version. None if a version is ready."""
    if newest(versions).ready:
        return None
    return next((each.reason for each in reversed(versions) if each.reason), None)


def view_tensors(signatures: Sequence[Signature], max_bytes: int | None = None) -> list[TensorView]:
    return [
        TensorView(
            name=each.name,
            datatype=each.datatype,
            shape=each.shape,
            optional=each.optional,
            reference=each.reference,
            max_bytes=None if each.reference else max_bytes,
        )
        for each in signatures
    ]


def make_router(services: ModelServices) -> Router:
    return Router(
        "/models",
        route_handlers=[list_models, get_model],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Models"],
    )
