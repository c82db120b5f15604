"""Outputs of models, as the API has them."""

import msgspec

from common.tensors import Tensor
from common.views.outputs import Output, OutputTensor
from services.dispatcher.triton.tensors import InlineLimit, render_outputs

LIMIT = 1024 * 1024  # bytes


def render(*tensors: Tensor | OutputTensor, limit: int = LIMIT) -> bytes:
    """Return the JSON list of the API."""
    outputs = []
    for tensor in tensors:
        assert isinstance(tensor.data, bytes)
        outputs.append(OutputTensor(tensor.name, tensor.datatype, tensor.shape, tensor.data))
    return render_outputs(outputs, -1, limit, InlineLimit(LIMIT), lambda: None).json


def read_output(tensor: Tensor | OutputTensor) -> Output:
    """Return a tensor as an output of the API."""
    (output,) = msgspec.json.decode(render(tensor), type=list[Output])
    return output
