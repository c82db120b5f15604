"""Outputs that are not held are shown by where they are."""

from charonia.cli.results import is_remote, shorten
from charonia.results import Outputs
from charonia.schemas import Output

PLACE = "s3://bucket/out/job/1/y"


def test_an_output_at_a_location_is_shown_by_it() -> None:
    outputs = Outputs([Output("y", "FP32", [1], size=4, location=PLACE), Output("z", "FP32", [1], data=[1.0])])
    assert [each.name for each in outputs.tensors if is_remote(each)] == ["y"]
    assert shorten(outputs, "y").plain.startswith(f"{PLACE} (4")
