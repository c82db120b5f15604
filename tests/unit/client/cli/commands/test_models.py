"""How the command line shows the inputs of a model."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from charonia.cli.commands.models import find_status, show_memory, show_place, show_row, show_tensor
from charonia.inputs import encode_inputs
from charonia.model_schemas import (
    ModelInfo,
    Residency,
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


@pytest.mark.parametrize(
    ("ready", "residency", "status"),
    [
        (True, Residency(state="resident"), "ready"),
        (True, Residency(state="draining"), "ready"),
        (False, Residency(state="resident"), "away"),
        (False, Residency(state="absent"), "absent"),
        (False, Residency(state="loading"), "loading"),
        (False, None, "away"),
    ],
)
def test_the_status_of_a_model_that_does_not_run_is_what_becomes_of_it(
    ready: bool, residency: Residency | None, status: str
) -> None:
    model = ModelInfo(
        name="ocr", ready=ready, streaming=False, max_batch_size=0, versions=[], inputs=[], outputs=[], queue={}
    )
    assert find_status(msgspec.structs.replace(model, residency=residency)) == status


def test_the_next_load_of_a_model_is_shown_with_its_reason() -> None:
    expected_at = datetime.now(UTC) + timedelta(seconds=90)
    waits = Residency(state="absent", place=2, expected_at=expected_at, why="It waits for the loads before it.")
    assert show_place(waits) == "number 2, ready in 1m: It waits for the loads before it."
    passed = msgspec.structs.replace(waits, expected_at=expected_at - timedelta(minutes=2), why=None)
    assert show_place(passed) == "number 2"
    assert show_place(Residency(state="absent", place=1)) == "number 1"
    assert show_place(Residency(state="resident", memory=1)) is None


def test_what_a_model_takes_is_shown_as_far_as_it_is_known() -> None:
    assert show_memory(Residency(state="absent", memory=6 * 2**30, load_seconds=11.4)) == "6.0 GiB, a load takes 11.4 s"
    assert show_memory(Residency(state="absent", load_seconds=0.5)) == "a load takes 500 ms"
    assert show_memory(Residency(state="absent")) is None
