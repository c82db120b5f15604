"""A JSON pointer leads to its place in the text."""

import pytest

from tests.unit.console.conftest import CallJs

TEXT = """{
  "inputs": {"a/b": {"shape": [1, -1], "datatype": "BYTES"}},
  "steps": {
    "read": {"model": "o{c}r, \\"x\\"", "inputs": {}}
  }
}"""


@pytest.mark.parametrize(
    ("pointer", "name", "line"),
    [
        ("/steps/read/model", '"model"', 4),
        ("/steps/read/inputs/image", '"inputs"', 4),  # it is missing, so that which should have it
        ("/inputs/a~1b/shape/1", "-1", 2),
        ("/inputs/a~1b/datatype", '"datatype"', 2),
        ("/outputs", "{", 1),
        ("", "{", 1),
    ],
)
async def test_pointer_has_a_place(call_js: CallJs, pointer: str, name: str, line: int) -> None:
    found = await call_js("json_places.js", "findPlace", TEXT, pointer)
    assert (TEXT[found["offset"] : found["offset"] + found["length"]], found["line"]) == (name, line)
