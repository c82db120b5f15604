"""How the command line shows the inputs of a model."""

import pytest
from charonia.cli.commands.models import show_tensor
from charonia.schemas import TensorInfo


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
