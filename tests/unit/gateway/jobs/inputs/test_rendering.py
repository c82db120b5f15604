"""The inputs of a job as JSON."""

import msgspec
import pytest

from common import tensors
from common.tensors import Datatype, ObjectContent, Tensor, UrlContent
from services.gateway.jobs.inputs.rendering import render_inputs
from tests.support.database.later_release import NEWER_INPUTS

X = Tensor("x", Datatype.UINT8, [2], b"\1\2")


def test_inputs_are_shown_as_they_came() -> None:
    assert render_inputs(tensors.pack([X])) == b'[{"name":"x","datatype":"UINT8","shape":[2],"data":[1,2]}]'


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (UrlContent("https://a.example/x?signature=secret"), {"url": "https://a.example/x"}),
        (ObjectContent("bucket", "in/x.npy", 128, 2), {"url": "s3://bucket/in/x.npy", "offset": 128, "size": 2}),
    ],
)
def test_what_a_submit_named_as_a_url_is_shown_as_one(
    content: UrlContent | ObjectContent, shown: dict[str, object]
) -> None:
    rendered = render_inputs(tensors.pack([Tensor("x", Datatype.UINT8, [2], content)]))
    assert rendered is not None
    assert msgspec.json.decode(rendered) == [{"name": "x", "datatype": "UINT8", "shape": [2]} | shown]


@pytest.mark.parametrize("packed", NEWER_INPUTS)
def test_inputs_of_a_later_release_are_left_out(packed: bytes) -> None:
    assert render_inputs(packed) is None
