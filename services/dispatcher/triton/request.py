"""A request to Triton: what a job asks for, and the message of it."""

from collections.abc import Sequence
from typing import Any

import msgspec
from tritonclient.grpc import service_pb2 as pb

from common import tensors
from common.locations.location import Location
from common.settings import INLINE_SIZE
from common.tensors import Tensor
from services.dispatcher.triton.request_bytes import WrittenRequest

Parameter = bool | int | float | str


class InferenceRequest(msgspec.Struct, frozen=True):
    """A request for one attempt. The tensors are packed, the parameters a JSON object, the timeout in seconds.

    `max_outputs` limits all responses together, in bytes of JSON. If inputs are in files, `message` is the whole
    message for Triton, and reading them has `spent` seconds of the timeout. An output over `inline` bytes is a file.
    With a `folder` of the client's own, all outputs go there. `for_step`: the outputs are wanted as tensors, too.
    """

    id: str
    model: str
    version: str | None
    tensors: bytes
    parameters: bytes | None
    timeout: float
    max_outputs: int
    message: bytes | None = None
    spent: float = 0.0
    inline: int = INLINE_SIZE
    folder: Location | None = None
    for_step: bool = False


def build_request(request: InferenceRequest) -> Any:
    if request.message is not None:
        return WrittenRequest(request.model, request.id, request.message)
    inputs = tensors.unpack(request.tensors)
    message = describe_request(request, inputs)
    message.raw_input_contents.extend(tensor.data for tensor in inputs)
    return message


def describe_request(request: InferenceRequest, inputs: Sequence[Tensor]) -> Any:
    """Return the message for Triton without the contents of the inputs."""
    message = pb.ModelInferRequest(model_name=request.model, model_version=request.version or "", id=request.id)
    for tensor in inputs:
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
    parameters = msgspec.json.decode(request.parameters or b"{}", type=dict[str, Parameter])
    for name, value in parameters.items():
        match value:
            case bool():
                message.parameters[name].bool_param = value
            case int():
                message.parameters[name].int64_param = value
            case float():
                message.parameters[name].double_param = value
            case str():
                message.parameters[name].string_param = value
    return message
