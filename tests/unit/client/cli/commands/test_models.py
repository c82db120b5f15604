"""How the command line shows the inputs of a model."""

import msgspec
import pytest
from charonia.cli.commands.models import show_row, show_tensor
from charonia.inputs import encode_inputs
from charonia.model_schemas import (
    ModelInfo,
    TensorInfo,
)


@pytest.mark.parametrize(
    ("tensor", "shown"),
    [
        (TensorInfo("x", "FP32", [-1, 3]), "x FP32 any×3"),
        (TensorInfo("hint", "INT32", [1], optional=True), "hint INT32 1 (optional)"),
        (TensorInfo("audio", "BYTES", [1], reference=True), "audio BYTES 1 (a file)"),
        (TensorInfo("audio", "BYTES", [1], optional=True, reference=True), "audio BYTES 1 (optional, a file)"),
    ],
)
def test_an_input_is_shown_with_what_it_takes(tensor: TensorInfo, shown: str) -> None:
    assert show_tensor(tensor) == shown


def test_a_model_of_another_kind_may_lack_numbers() -> None:
    model = msgspec.json.decode(
        b'{"kind":"pipeline","name":"scan","ready":true,"streaming":false,"max_batch_size":null,"versions":[],'
        b'"inputs":[{"name":"x","datatype":"FP32","shape":[1]}],"outputs":[],"queue":null,"slots":null,"running":null}',
        type=ModelInfo,
    )
    assert show_row(model)[0] == "scan"
    assert show_row(model)[-2:] == ("", "")
    assert encode_inputs(model, {"x": [1.0]})[0].shape == [1]
