"""The image of a request."""

import numpy as np
import pytest

from benchmarks.gpu.sizes import IMAGE_SIDE
from benchmarks.harness.load_generator import IMAGE
from tests.support.model_programs import load

images = load("vision_transformer/1/images.py")


def test_the_image_of_the_load_is_read() -> None:
    assert images.read_image(np.array([[IMAGE]], dtype=np.object_), IMAGE_SIDE) == IMAGE


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([], "0 elements; it must have one"),
        ([b"", b""], "2 elements"),
        ([b"x" * 11], "11 bytes; it must have 12: 2 × 2"),
    ],
)
def test_anything_else_is_refused(elements: list[bytes], message: str) -> None:
    with pytest.raises(images.InvalidImage, match=message):
        images.read_image(np.array([elements], dtype=np.object_), 2)
