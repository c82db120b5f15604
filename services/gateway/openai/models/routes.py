"""HTTP routes of the models that speak OpenAI's API."""

from typing import Any

from litestar import Request, get

from common.telemetry.logs import Log
from services.gateway.auth.model_permissions import check_model, select_models
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.models.catalogue import newest
from services.gateway.openai.calls.documentation import ANY_CALL, NAMED, document
from services.gateway.openai.dependencies import Services
from services.gateway.openai.models.endpoints import list_endpoints
from services.gateway.openai.models.schemas import OpenAIModel, OpenAIModelList
from services.gateway.openai.speakers import Silent, Speaker, find_speaker, read_speaker

log = Log("openai")

Caller = Request[Key, Any, Any]


@get(
    "/models",
    summary="List the models that speak",
    operation_id="list_openai_models",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_openai_models(request: Caller, services: Services) -> OpenAIModelList:
    """Return the models that speak OpenAI's API and that your key may run, whether or not they are ready."""
    models = select_models(request.user.models, await services.catalogue.read())
    found: list[OpenAIModel] = []
    for name, versions in sorted(models.items()):
        try:
            if (model := newest(versions)).declared:
                found.append(view_model(read_speaker(model)))
        except Silent as silent:
            if silent.is_wrong:
                log.warn_once("openai.model_silent", model=name, version=model.version, reason=silent.reason)
    return OpenAIModelList(data=found)


@get(
    "/models/{model:str}",
    summary="Get a model that speaks",
    operation_id="get_openai_model",
    **needs(Scope.READ),
    responses=document(*NAMED),
)
async def get_openai_model(request: Caller, model: str, services: Services) -> OpenAIModel:
    """Return the model. The error of a model that does not speak says what is wrong with its configuration."""
    check_model(request.user.models, model)
    models = select_models(request.user.models, await services.catalogue.read())
    return view_model(find_speaker(models, model))


def view_model(speaker: Speaker) -> OpenAIModel:
    return OpenAIModel(id=speaker.model.name, endpoints=list_endpoints(speaker))
