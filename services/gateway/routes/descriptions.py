"""What the Open Inference Protocol tells of the server and its models: from the catalogue, in Triton's shapes."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from litestar import MediaType, Request, Router, get
from litestar.params import PathParameter

from common import VERSION
from common.health import report
from common.tensors import Datatype, Signature
from services.gateway.catalogue import Catalogue
from services.gateway.errors import PROTOCOL, Problem
from services.gateway.protocol_api import document, find_model, name_operation
from services.gateway.protocol_views import (
    ConfigInput,
    ConfigOutput,
    MetadataTensor,
    ModelConfig,
    ModelMetadata,
    ServerMetadata,
    TransactionPolicy,
)
from services.gateway.scopes import Scope, needs
from services.gateway.store import ModelVersion

EXTENSIONS = ["binary_tensor_data", "model_configuration", "parameters"]
ANY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
FINDING = document(*ANY, HTTPStatus.NOT_FOUND)
READINESS = document(*ANY, HTTPStatus.BAD_REQUEST)
Model = Annotated[str, PathParameter()]
Version = Annotated[str | None, PathParameter()]


def paths(end: str) -> list[str]:
    return [f"/models/{{model:str}}{end}", f"/models/{{model:str}}/versions/{{version:str}}{end}"]


@get(
    paths(""),
    summary="A model's metadata",
    operation_id=name_operation("model_metadata"),
    **needs(Scope.READ),
    responses=FINDING,
)
async def get_metadata(model: Model, catalogue: Catalogue, version: Version = None) -> ModelMetadata:
    found = await find_model(catalogue, model, version)
    versions = [each.version for each in (await catalogue.read())[model]] if version is None else [version]
    return ModelMetadata(
        name=model, versions=versions, inputs=view_tensors(found.inputs), outputs=view_tensors(found.outputs)
    )


@get(
    paths("/config"),
    summary="A model's configuration",
    operation_id=name_operation("model_config"),
    **needs(Scope.READ),
    responses=FINDING,
)
async def get_config(model: Model, catalogue: Catalogue, version: Version = None) -> ModelConfig:
    """What is known of it here: what a client needs to write a request."""
    found = await find_model(catalogue, model, version)
    return ModelConfig(
        name=model,
        max_batch_size=found.max_batch_size,
        input=[
            ConfigInput(each.name, name_type(each.datatype), list_dims(found, each), each.optional)
            for each in found.inputs
        ],
        output=[ConfigOutput(each.name, name_type(each.datatype), list_dims(found, each)) for each in found.outputs],
        model_transaction_policy=TransactionPolicy(found.decoupled),
    )


@get(
    paths("/ready"),
    summary="Whether a model can run now",
    operation_id=name_operation("model_ready"),
    **needs(Scope.READ),
    media_type=MediaType.TEXT,
    responses=READINESS,
)
async def get_ready(model: Model, catalogue: Catalogue, version: Version = None) -> None:
    """One that is not ready takes requests all the same: they wait."""
    versions = (await catalogue.read()).get(model, [])
    if not any(each.ready for each in versions if version in (None, each.version)):
        raise Problem(HTTPStatus.BAD_REQUEST, "not_ready", "Model version not ready")


@get("/", summary="The server's metadata", operation_id="server_metadata")
async def get_server() -> ServerMetadata:
    return ServerMetadata("charonia", VERSION, EXTENSIONS)


@get("/health/live", summary="The gateway is alive", operation_id="server_live", media_type=MediaType.TEXT)
async def get_live() -> None:
    return None


@get(
    "/health/ready",
    summary="Whether the gateway takes requests",
    operation_id="server_ready",
    media_type=MediaType.TEXT,
    responses=document(HTTPStatus.BAD_REQUEST),
)
async def get_server_ready(request: Request[Any, Any, Any]) -> None:
    """As `/readyz`."""
    ready, _ = await report(request.app.state.checks, optional={"broker"})
    if request.app.state.rotation.left or not ready:
        raise Problem(HTTPStatus.BAD_REQUEST, "not_ready", "the gateway is not ready")


def view_tensors(signatures: Sequence[Signature]) -> list[MetadataTensor]:
    return [MetadataTensor(each.name, each.datatype, each.shape) for each in signatures]


def list_dims(model: ModelVersion, signature: Signature) -> list[int]:
    """Without the batch dimension, which a configuration does not name."""
    return signature.shape[1:] if model.max_batch_size > 0 else signature.shape


def name_type(datatype: Datatype) -> str:
    return "TYPE_STRING" if datatype is Datatype.BYTES else f"TYPE_{datatype}"


TAGS = ["Open Inference Protocol"]
router = Router("/", route_handlers=[get_metadata, get_config, get_ready], tags=TAGS)
public = Router(PROTOCOL, route_handlers=[get_server, get_live, get_server_ready], tags=TAGS, security=[{}])
