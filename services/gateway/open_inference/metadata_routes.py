"""HTTP routes of the Open Inference Protocol for the metadata and health of the server and its models."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from litestar import MediaType, Request, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter

from common import VERSION
from common.tensors import Datatype, Signature
from services.gateway.auth.model_permissions import check_model
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.problems import Problem, ProtocolError
from services.gateway.models.pipeline_store import PipelineKey
from services.gateway.models.pipelines import find_runnable
from services.gateway.models.store import ModelVersion
from services.gateway.open_inference.dependencies import InferenceServices, Services
from services.gateway.open_inference.operations import document, find_model, name_operation
from services.gateway.open_inference.schemas import (
    ConfigInput,
    ConfigOutput,
    MetadataTensor,
    ModelConfig,
    ModelMetadata,
    ServerMetadata,
    TransactionPolicy,
)

EXTENSIONS = ["binary_tensor_data", "model_configuration", "parameters"]
ANY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
FINDING = document(*ANY, HTTPStatus.NOT_FOUND)
NOT_READY = {400: ResponseSpec(ProtocolError, description="It is not ready, or unknown", generate_examples=False)}
Caller = Request[Key, Any, Any]
Model = Annotated[str, PathParameter()]
Version = Annotated[str | None, PathParameter()]


def model_paths(end: str) -> list[str]:
    return [f"/models/{{model:str}}{end}", f"/models/{{model:str}}/versions/{{version:str}}{end}"]


@get(
    model_paths(""),
    summary="Get the metadata of a model",
    operation_id=name_operation("model_metadata"),
    **needs(Scope.READ),
    responses=FINDING,
)
async def get_metadata(request: Caller, model: Model, services: Services, version: Version = None) -> ModelMetadata:
    """Return the versions, inputs and outputs of a model."""
    found = await find_model(services, request.user, model, version)
    versions = [version] if version is not None else await list_served(services, found)
    return ModelMetadata(
        name=model, versions=versions, inputs=view_tensors(found.inputs), outputs=view_tensors(found.outputs)
    )


async def list_served(services: InferenceServices, model: ModelVersion) -> list[str]:
    """Return the versions of a model, or the newest one of a pipeline."""
    versions = (await services.catalogue.read()).get(model.name, [model])
    return [each.version for each in versions if each.declared]


@get(
    model_paths("/config"),
    summary="Get the configuration of a model",
    operation_id=name_operation("model_config"),
    **needs(Scope.READ),
    responses=FINDING,
)
async def get_config(request: Caller, model: Model, services: Services, version: Version = None) -> ModelConfig:
    """Return the part of the configuration that a client needs to build a request."""
    found = await find_model(services, request.user, model, version)
    return ModelConfig(
        name=model,
        max_batch_size=found.max_batch_size,
        input=[
            ConfigInput(each.name, config_type(each.datatype), list_dims(found, each), each.optional)
            for each in found.inputs
        ],
        output=[ConfigOutput(each.name, config_type(each.datatype), list_dims(found, each)) for each in found.outputs],
        model_transaction_policy=TransactionPolicy(found.decoupled),
    )


@get(
    model_paths("/ready"),
    summary="Check whether a model is ready",
    operation_id=name_operation("model_ready"),
    **needs(Scope.READ),
    media_type=MediaType.TEXT,
    responses=document(*ANY) | NOT_READY,
)
async def get_ready(request: Caller, model: Model, services: Services, version: Version = None) -> None:
    """Return 200 if the model can run now, else 400. Requests for a model that is not ready wait in the queue."""
    check_model(request.user.models, model)
    models = await services.catalogue.read()
    pipeline = await find_runnable(services.pipelines, request.user, PipelineKey(model, version), models)
    versions = models.get(model, []) if pipeline is None else [pipeline]
    if not any(each.ready for each in versions if version in (None, each.version)):
        raise Problem(HTTPStatus.BAD_REQUEST, "not_ready", "Model version not ready")  # Triton's text


@get("/", summary="Get the metadata of the server", operation_id="server_metadata")
async def get_server() -> ServerMetadata:
    """Return the name, version and protocol extensions of the server."""
    return ServerMetadata("charonia", VERSION, EXTENSIONS)


@get(
    "/health/live",
    summary="Check whether the gateway is alive",
    operation_id="server_live",
    media_type=MediaType.TEXT,
)
async def get_live() -> None:
    """Return 200 while the process runs."""
    return


@get(
    "/health/ready",
    summary="Check whether the gateway is ready",
    operation_id="server_ready",
    media_type=MediaType.TEXT,
    responses=NOT_READY,
)
async def get_server_ready(services: Services) -> None:
    """Return 200 if `/readyz` would, else 400."""
    ready, _ = await services.readiness.check()
    if not ready:
        raise Problem(HTTPStatus.BAD_REQUEST, "not_ready", "the gateway is not ready")


def view_tensors(signatures: Sequence[Signature]) -> list[MetadataTensor]:
    return [MetadataTensor(each.name, each.datatype, each.shape) for each in signatures]


def list_dims(model: ModelVersion, signature: Signature) -> list[int]:
    """Return the shape without the batch dimension, as configurations have it."""
    return signature.shape[1:] if model.max_batch_size > 0 else signature.shape


def config_type(datatype: Datatype) -> str:
    return "TYPE_STRING" if datatype is Datatype.BYTES else f"TYPE_{datatype}"
