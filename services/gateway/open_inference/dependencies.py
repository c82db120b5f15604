"""The services that the handlers of the Open Inference Protocol receive."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from common.object_store.store import ObjectStore
from services.gateway.auth.authentication import Authenticator
from services.gateway.http.health import Readiness
from services.gateway.http.worker_processes import Workers
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.pipeline_store import PipelineReader
from services.gateway.open_inference.inference import Inference


@dataclass(frozen=True)
class InferenceServices:
    authenticator: Authenticator
    readiness: Readiness
    catalogue: Catalogue
    pipelines: PipelineReader
    inference: Inference
    workers: Workers
    objects: ObjectStore
    max_body: int  # bytes, decompressed


Services = NamedDependency[SkipValidation[InferenceServices]]
