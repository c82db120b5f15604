"""Each step of a pipeline is drawn to the right of those that it needs."""

from tests.unit.console.conftest import CallJs

NEEDS = {"last": ["left", "right"], "first": [], "left": ["first"], "right": ["first"]}


async def test_steps_stand_in_columns(call_js: CallJs) -> None:
    found = await call_js("step_layout.js", "layOutSteps", NEEDS)
    places = {each["name"]: (each["x"], each["y"]) for each in found["places"]}
    assert places["first"] == (0, 0)
    assert places["left"][0] == places["right"][0] > 0
    assert places["right"][1] > places["left"][1] == 0
    assert places["last"][0] > places["left"][0]
    assert found["width"] > places["last"][0]
    assert found["height"] > places["right"][1]
    assert len(found["lines"]) == 4
    assert found["lines"][0].startswith(f"M{places['left'][0] + 200} ")


async def test_a_single_step_has_no_line(call_js: CallJs) -> None:
    found = await call_js("step_layout.js", "layOutSteps", {"only": []})
    assert (found["lines"], found["width"], found["height"]) == ([], 200, 92)
