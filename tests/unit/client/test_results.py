"""Outputs become Python values, arrays and files."""

from pathlib import Path

import numpy as np
import pytest
from charonia.errors import InvalidRequest, NotFound
from charonia.results import Outputs, make_done
from charonia.schemas import BatchLine, ItemProblem, Output

OUTPUTS = Outputs(
    [
        Output("y", "FP32", [2, 2], [1.0, "NaN", "-Infinity", 2]),
        Output("text", "BYTES", [2], ["a", {"base64": "/wA="}]),
        Output("one", "INT64", [], [7]),
        Output("empty", "INT32", [2, 0], []),
        Output("image", "BYTES", [1], ["größe"]),
    ]
)


def test_values_have_the_shape_of_the_tensor() -> None:
    assert repr(OUTPUTS["y"]) == "[[1.0, nan], [-inf, 2.0]]"
    assert (OUTPUTS["text"], OUTPUTS["one"], OUTPUTS["empty"]) == (["a", b"\xff\x00"], 7, [[], []])
    assert list(OUTPUTS) == ["y", "text", "one", "empty", "image"]


def test_arrays_have_the_datatype_of_the_tensor() -> None:
    found = OUTPUTS.numpy("y")
    assert (found.dtype, found.shape) == (np.float32, (2, 2))
    assert np.isnan(found[0, 1])
    assert OUTPUTS.numpy("text").tolist() == ["a", b"\xff\x00"]
    assert (OUTPUTS.numpy("one").shape, OUTPUTS.numpy("empty").shape) == ((), (2, 0))


def test_a_single_element_is_a_file(tmp_path: Path) -> None:
    assert OUTPUTS.file("image").save(tmp_path / "out").read_bytes() == "größe".encode()
    with pytest.raises(ValueError, match="not one BYTES element"):
        OUTPUTS.file("text")


def test_responses_of_a_stream_are_joined() -> None:
    outputs = [Output("token", "BYTES", [1], [word], index) for index, word in enumerate(["a", "b"])]
    found = Outputs([*outputs, Output("n", "INT32", [], [1], 0), Output("n", "INT32", [], [2], 1)])
    assert (found["token"], found.text, found["n"], len(found)) == (["a", "b"], "ab", [1, 2], 2)
    assert (found.numpy("token").shape, found.numpy("n").tolist()) == ((2,), [1, 2])


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(KeyError, match="no output 'x'; there are 'y', 'text'"):
        OUTPUTS["x"]
    assert OUTPUTS.get("x") is None


@pytest.mark.parametrize(("code", "kind"), [("invalid_request", InvalidRequest), ("not_found", NotFound)])
def test_an_item_without_a_job_has_an_error(code: str, kind: type[Exception]) -> None:
    problem = ItemProblem(f"urn:charonia:problem:{code}", "why")
    done = make_done(3, "item", BatchLine(index=0, custom_id=None, job=None, error=problem))
    assert done is not None
    assert (done.index, done.item, type(done.error)) == (3, "item", kind)
    with pytest.raises(kind, match="why"):
        done["x"]
