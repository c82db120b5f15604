"""Metadata bodies of the Open Inference Protocol, in Triton's shapes."""

import msgspec

from common.tensors import Datatype

UNKNOWN = "unknown"  # the catalogue does not store the framework or backend of a model


class ServerMetadata(msgspec.Struct, frozen=True):
    """The server."""

    name: str
    """Always `charonia`."""
    version: str
    """The version of Charonia."""
    extensions: list[str]
    """The extensions of the protocol that it supports."""


class MetadataTensor(msgspec.Struct, frozen=True):
    """An input or output of a model."""

    name: str
    """The name of the input or output."""
    datatype: Datatype
    """The type of each element."""
    shape: list[int]
    """The size of each dimension, with the batch dimension first. -1 is any size."""


class ModelMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A model."""

    name: str
    """The name of the model."""
    versions: list[str]
    """The versions of the model, or the requested one."""
    platform: str = UNKNOWN
    """Always `unknown`."""
    inputs: list[MetadataTensor]
    """The inputs of the model."""
    outputs: list[MetadataTensor]
    """The outputs of the model."""


class ConfigInput(msgspec.Struct, frozen=True):
    """An input of a model."""

    name: str
    """The name of the input."""
    data_type: str
    """The type of each element, in Triton's words, such as `TYPE_FP32`."""
    dims: list[int]
    """The size of each dimension, without the batch dimension. -1 is any size."""
    optional: bool
    """Whether a request may leave the input out."""


class ConfigOutput(msgspec.Struct, frozen=True):
    """An output of a model."""

    name: str
    """The name of the output."""
    data_type: str
    """The type of each element, in Triton's words, such as `TYPE_FP32`."""
    dims: list[int]
    """The size of each dimension, without the batch dimension. -1 is any size."""


class TransactionPolicy(msgspec.Struct, frozen=True):
    """How requests and responses of a model relate."""

    decoupled: bool
    """Whether one request may get many responses."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a model's configuration that a client needs."""

    name: str
    """The name of the model."""
    platform: str = UNKNOWN
    """Always `unknown`."""
    backend: str = UNKNOWN
    """Always `unknown`."""
    max_batch_size: int
    """The largest batch that the model takes; 0 without batching."""
    input: list[ConfigInput]
    """The inputs of the model."""
    output: list[ConfigOutput]
    """The outputs of the model."""
    model_transaction_policy: TransactionPolicy
    """How requests and responses relate."""
