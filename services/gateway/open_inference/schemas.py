"""Metadata bodies of the Open Inference Protocol, in Triton's shapes."""

import msgspec

from common.tensors import Datatype

UNKNOWN = "unknown"  # the catalogue does not store the framework or backend of a model


class ServerMetadata(msgspec.Struct, frozen=True):
    name: str
    version: str
    extensions: list[str]


class MetadataTensor(msgspec.Struct, frozen=True):
    """An input or output. The shape includes the batch dimension. -1 is any size."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    versions: list[str]
    platform: str = UNKNOWN
    inputs: list[MetadataTensor]
    outputs: list[MetadataTensor]


class ConfigInput(msgspec.Struct, frozen=True):
    """An input. `dims` lacks the batch dimension. `data_type` is Triton's: TYPE_FP32, TYPE_STRING."""

    name: str
    data_type: str
    dims: list[int]
    optional: bool


class ConfigOutput(msgspec.Struct, frozen=True):
    name: str
    data_type: str
    dims: list[int]


class TransactionPolicy(msgspec.Struct, frozen=True):
    decoupled: bool


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    platform: str = UNKNOWN
    backend: str = UNKNOWN
    max_batch_size: int
    input: list[ConfigInput]
    output: list[ConfigOutput]
    model_transaction_policy: TransactionPolicy
