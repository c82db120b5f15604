"""What the steps of a pipeline need, and how its definition is shown."""

from tests.unit.console.conftest import CallJs

STEP = {"version": None, "for_each": None, "timeout": 600, "model": "words", "inputs": {"text": "$read.text"}}
DEFINITION = {
    "inputs": {"image": {"datatype": "BYTES", "shape": [1]}},
    "steps": {
        "read": {"model": "ocr", "inputs": {"image": "$inputs.image"}},
        "lines": STEP | {"for_each": "text"},
        "both": {"model": "x", "inputs": {"a": "$read.text", "b": "$lines.a.b", "c": "$read.boxes"}},
    },
    "outputs": {"text": "$read.text"},
}


async def test_a_step_needs_the_steps_that_it_refers_to(call_js: CallJs) -> None:
    needs = await call_js("pipelines.js", "listNeeds", DEFINITION)
    assert needs == {"read": [], "lines": ["read"], "both": ["read", "lines"]}


async def test_what_is_null_is_left_out(call_js: CallJs) -> None:
    found = await call_js("pipelines.js", "tidyDefinition", DEFINITION)
    assert found["inputs"] == DEFINITION["inputs"]
    assert list(found["steps"]["lines"]) == ["model", "inputs", "for_each", "timeout"]
