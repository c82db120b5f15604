"""Outputs of models, as the API has them."""

import msgspec

from common.tensors import Output, Tensor
from services.dispatcher.triton.tensors import render_outputs

LIMIT = 1024 * 1024  # bytes


def render(*tensors: Tensor, limit: int = LIMIT) -> bytes:
    """Return the JSON list of the API."""
    return render_outputs(tensors, -1, limit, lambda: None)


def read_output(tensor: Tensor) -> Output:
    """Return a tensor as an output of the API."""
    (output,) = msgspec.json.decode(render(tensor), type=list[Output])
    return output
