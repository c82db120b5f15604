"""The reference has an example of each fault, with the pointer and the text that a client gets."""

import json
import re
from typing import Any

import msgspec
import pytest

from common.pipelines.definition import PipelineDefinition
from common.tensors import Datatype, Signature
from deploy.local.settings import ROOT
from services.gateway.models.store import ModelVersion
from services.gateway.pipelines.check import check_pipeline
from tests.support.api.page_pipeline import DEFINITION

PAGE = ROOT / "docs" / "reference" / "api" / "pipelines.md"
ROW = re.compile(r"^\| `(\{.*\})` \| `(/.*?)` \| (.*) \|$", re.MULTILINE)
IMAGE, TEXTS = Signature("image", Datatype.BYTES, [1]), Signature("text", Datatype.BYTES, [-1])
AUDIO = Signature("audio", Datatype.BYTES, [1], reference=True)
X, Y = Signature("x", Datatype.FP32, [-1, -1]), Signature("y", Datatype.FP32, [-1, -1])
WORDS = [Signature("words", Datatype.BYTES, [-1]), Signature("count", Datatype.INT32, [1])]
MODELS = [  # of the demo stack
    ModelVersion("ocr", "1", True, False, 0, [IMAGE], [TEXTS]),
    ModelVersion("ocr_stream", "1", True, True, 0, [IMAGE], [TEXTS]),
    ModelVersion("words", "1", True, False, 0, [TEXTS], WORDS),
    ModelVersion("excerpt", "1", True, False, 0, [AUDIO], [Signature("size", Datatype.INT64, [1])]),
    ModelVersion("echo", "1", True, False, 64, [X], [Y]),
]
EXAMPLES = ROW.findall(PAGE.read_text())


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON Merge Patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def test_the_reference_has_examples() -> None:
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize(("patch", "pointer", "detail"), EXAMPLES)
def test_an_example_gets_the_fault_beside_it(patch: str, pointer: str, detail: str) -> None:
    definition = msgspec.convert(merge(DEFINITION, json.loads(patch)), PipelineDefinition)
    faults = check_pipeline(definition, {each.name: [each] for each in MODELS}).errors
    begin, cut, _ = detail.partition("…")
    found = [fault.detail for fault in faults if fault.pointer == pointer]
    assert begin in [text[: len(begin)] if cut else text for text in found]
