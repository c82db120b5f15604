"""The model catalogue."""

from collections.abc import Sequence

from litestar import Router, get

from common.jobs import Priority
from common.tensors import Signature
from services.gateway.catalogue import Catalogue, choose, newest
from services.gateway.depths import Counts, Depths
from services.gateway.errors import FINDING, READING, document
from services.gateway.model_schemas import ModelList, ModelView, TensorView, VersionView
from services.gateway.scopes import Scope, needs
from services.gateway.store import ModelVersion


@get("/", summary="What can be run", operation_id="list_models", **needs(Scope.READ), responses=document(*READING))
async def list_models(catalogue: Catalogue, depths: Depths) -> ModelList:
    models, queued = await catalogue.read(), await depths.read()
    return ModelList([view_model(versions, queued) for _, versions in sorted(models.items())])


@get("/{name:str}", summary="One model", operation_id="get_model", **needs(Scope.READ), responses=document(*FINDING))
async def get_model(name: str, catalogue: Catalogue, depths: Depths) -> ModelView:
    models = await catalogue.read()
    choose(models, name)
    return view_model(models[name], await depths.read())


def view_model(versions: Sequence[ModelVersion], queued: Counts) -> ModelView:
    model = newest(versions)
    return ModelView(
        name=model.name,
        ready=model.ready,
        streaming=model.decoupled,
        max_batch_size=model.max_batch_size,
        versions=[VersionView(each.version, each.ready) for each in versions],
        inputs=view_tensors(model.inputs),
        outputs=view_tensors(model.outputs),
        queue={priority: queued.get((model.name, priority), 0) for priority in Priority},
    )


def view_tensors(signatures: Sequence[Signature]) -> list[TensorView]:
    return [TensorView(each.name, each.datatype, each.shape, each.optional) for each in signatures]


router = Router("/models", route_handlers=[list_models, get_model], tags=["Models"])
