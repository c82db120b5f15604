"""References to inputs and to outputs of steps."""

import pytest

from common.pipelines.references import InvalidReference, PipelineReference, parse_reference


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("$inputs.image", PipelineReference(None, "image")),
        ("$read.text", PipelineReference("read", "text")),
        ("$inputs.serving/x.y:0", PipelineReference(None, "serving/x.y:0")),
        ("$read..$", PipelineReference("read", ".$")),
    ],
)
def test_the_first_dot_divides(text: str, reference: PipelineReference) -> None:
    assert parse_reference(text) == reference


@pytest.mark.parametrize("text", ["", "$", "read.text", "$read", "$read.", "$.text", "inputs.image"])
def test_what_is_no_reference_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(InvalidReference, match=r"expected `\$inputs\.NAME` .* `\$STEP\.NAME`"):
        parse_reference(text)
