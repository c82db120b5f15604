"""The sizes are those of the models that they are named after."""

import pytest

from benchmarks.gpu.sizes import PATCH, SIZES, choose_size, count_decoder, count_vision


def test_base_and_large_are_as_big_as_the_published_models() -> None:
    assert count_vision(SIZES["base"].vision) == 86_567_656  # ViT-B/16
    assert count_vision(SIZES["large"].vision) == 304_326_632  # ViT-L/16
    assert 300e6 < count_decoder(SIZES["base"].decoder) < 400e6


@pytest.mark.parametrize("name", SIZES)
def test_each_size_fits_together(name: str) -> None:
    size = SIZES[name]
    assert size.vision.pixels % PATCH == size.vision.width % size.vision.heads == 0
    assert size.decoder.width % size.decoder.heads == 0
    assert size.prompt + size.tokens <= size.decoder.positions
    assert size.prompt <= size.decoder.vocabulary


@pytest.mark.parametrize(
    ("wanted", "gpu", "chosen"),
    [("auto", True, "base"), ("auto", False, "tiny"), ("small", True, "small"), ("large", False, "large")],
)
def test_the_size_depends_on_the_gpu_unless_it_is_given(wanted: str, gpu: bool, chosen: str) -> None:
    assert choose_size(wanted, gpu) == chosen
