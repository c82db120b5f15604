"""Fits the shape of an input to the one that a model declares. Pure."""

import math
from collections.abc import Sequence

from common.tensors import SIZES, Signature
from services.gateway.jobs.inputs.tensor_encoding import InvalidTensor


def fits(shape: Sequence[int], signature: Signature) -> bool:
    return len(shape) == len(signature.shape) and all(
        wanted in (-1, size) for size, wanted in zip(shape, signature.shape, strict=True)
    )


def fit_shape(shape: list[int], signature: Signature, *, batched: bool) -> list[int]:
    """Return the shape as the model expects it.

    A single value counts as a tensor of one element, and a single item as a batch of one.
    """
    for candidate in (shape, [1, *shape] if batched else shape, [] if shape else [1] * len(signature.shape)):
        if fits(candidate, signature):
            return candidate
    raise InvalidTensor(f"expected shape {show_shape(signature)}, got {shape}")


def infer_shape(
    size: int, signature: Signature, *, batched: bool, advice: str = "send the input in the list form, with its shape"
) -> list[int]:
    """Return the shape of raw bytes, if at most one dimension is variable (beside a batch of one).

    `advice` says how to send an input whose shape is not clear.
    """
    wanted = signature.shape
    if batched and wanted.count(-1) > 1:
        wanted = [1, *wanted[1:]]
    known = math.prod(dimension for dimension in wanted if dimension != -1) * SIZES[signature.datatype]
    if wanted.count(-1) > 1:
        raise InvalidTensor(f"shape {signature.shape} has several variable dimensions; {advice}")
    if known == 0 or size % known or (-1 not in wanted and size != known):
        needed = f"{'a multiple of ' if -1 in wanted else ''}{known} bytes"
        raise InvalidTensor(f"{size} bytes do not fit {signature.datatype} of shape {signature.shape}; send {needed}")
    return [size // known if dimension == -1 else dimension for dimension in wanted]


def show_shape(signature: Signature) -> str:
    return f"{signature.shape}{' (-1 is any size)' if -1 in signature.shape else ''}"
