"""The inputs of a job as JSON."""

import pytest

from common import tensors
from common.tensors import Datatype, Tensor
from services.gateway.jobs.inputs.rendering import render_inputs
from tests.support.database.later_release import NEWER_INPUTS

X = Tensor("x", Datatype.UINT8, [2], b"\1\2")


def test_inputs_are_shown_as_they_came() -> None:
    assert render_inputs(tensors.pack([X])) == b'[{"name":"x","datatype":"UINT8","shape":[2],"data":[1,2]}]'


@pytest.mark.parametrize("packed", NEWER_INPUTS)
def test_inputs_of_a_later_release_are_left_out(packed: bytes) -> None:
    assert render_inputs(packed) is None
