"""Whether a model takes what was packed for another."""

import pytest

from common.tensors import Datatype, Signature, Tensor
from services.gateway.control import takes

X = Tensor("x", Datatype.FP32, [2, 3], bytes(24))
WANTED = Signature("x", Datatype.FP32, [-1, 3])
HINT = Signature("hint", Datatype.INT32, [1], optional=True)


def test_a_model_with_the_same_inputs_takes_them() -> None:
    assert takes([X], [WANTED], 0)
    assert takes([X], [WANTED, HINT], 0)


@pytest.mark.parametrize(
    ("given", "wanted", "max_batch_size"),
    [
        ([X], [Signature("z", Datatype.FP32, [-1, 3])], 0),
        ([X], [WANTED, Signature("z", Datatype.FP32, [1])], 0),
        ([X, Tensor("z", Datatype.FP32, [1], bytes(4))], [WANTED], 0),
        ([X], [Signature("x", Datatype.INT32, [-1, 3])], 0),
        ([X], [Signature("x", Datatype.FP32, [-1, 4])], 0),
        ([X], [Signature("x", Datatype.FP32, [-1])], 0),
        ([X], [WANTED], 1),
    ],
    ids=["name", "one missing", "one too many", "datatype", "size", "dimensions", "batch"],
)
def test_a_model_with_other_inputs_does_not(given: list[Tensor], wanted: list[Signature], max_batch_size: int) -> None:
    assert not takes(given, wanted, max_batch_size)
