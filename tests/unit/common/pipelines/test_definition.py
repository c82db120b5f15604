"""A stored definition: what a later release adds to it, and its limits."""

import msgspec
import pytest

from common.pipelines.definition import PipelineDefinition

STEP = {"model": "ocr", "inputs": {"image": "$inputs.image"}}
DEFINITION = {
    "inputs": {"image": {"datatype": "BYTES", "shape": [1]}},
    "steps": {"read": STEP},
    "outputs": {"text": "$read.text"},
}


def test_what_a_later_release_adds_is_ignored() -> None:
    later = DEFINITION | {"format": 2, "steps": {"read": STEP | {"when": "$read.x", "retry": {"jitter": "full"}}}}
    definition = msgspec.json.decode(msgspec.json.encode(later), type=PipelineDefinition)
    assert definition == msgspec.convert(DEFINITION, PipelineDefinition)
    assert msgspec.json.decode(msgspec.json.encode(definition), type=PipelineDefinition) == definition


@pytest.mark.parametrize("name", ["inputs", "", "1st", "-", "a b", "a.b", "a\n", "a" * 65])
def test_a_step_has_a_name_that_references_can_have(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="key"):
        msgspec.convert(DEFINITION | {"steps": {name: STEP}}, PipelineDefinition)


@pytest.mark.parametrize("name", ["inputs_", "_", "read-2", "a" * 64])
def test_names_of_steps_are_those_of_programs(name: str) -> None:
    assert name in msgspec.convert(DEFINITION | {"steps": {name: STEP}}, PipelineDefinition).steps


@pytest.mark.parametrize(("field", "most"), [("inputs", 64), ("steps", 32), ("outputs", 64)])
def test_a_pipeline_has_no_more_of_anything_than_its_limit(field: str, most: int) -> None:
    (entry,) = DEFINITION[field].values()  # type: ignore[attr-defined]
    for count in (0, most + 1):
        with pytest.raises(msgspec.ValidationError, match="length"):
            msgspec.convert(DEFINITION | {field: {f"a{each}": entry for each in range(count)}}, PipelineDefinition)
    msgspec.convert(DEFINITION | {field: {f"a{each}": entry for each in range(most)}}, PipelineDefinition)
