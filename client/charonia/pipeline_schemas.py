"""What the API answers of pipelines. Fields that a newer gateway adds are ignored."""

from datetime import datetime
from typing import Any

from charonia.model_schemas import TensorInfo
from charonia.schemas import ApiObject


class PipelineData(ApiObject, frozen=True, kw_only=True):
    """A version of a pipeline. `definition` has the defaults of the fields that it left out.

    `versions` are all of its versions, newest first. Only `get` reads them.
    """

    name: str
    version: str
    created_at: datetime
    definition: dict[str, Any]
    versions: list[str] | None = None


class CheckedPipeline(ApiObject, frozen=True, kw_only=True):
    """What a pipeline would take and make."""

    input_tensors: list[TensorInfo]
    output_tensors: list[TensorInfo]
