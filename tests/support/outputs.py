"""Outputs of models, as the API has them."""

import msgspec

from common.tensors import Output, Tensor
from services.dispatcher.triton.tensors import OutputTensor, render_outputs

LIMIT = 1024 * 1024  # bytes


def render(*tensors: Tensor | OutputTensor, limit: int = LIMIT) -> bytes:
    """Return the JSON list of the API."""
    outputs = [OutputTensor(tensor.name, tensor.datatype, tensor.shape, tensor.data) for tensor in tensors]
    return render_outputs(outputs, -1, limit, lambda: None)


def read_output(tensor: Tensor | OutputTensor) -> Output:
    """Return a tensor as an output of the API."""
    (output,) = msgspec.json.decode(render(tensor), type=list[Output])
    return output
