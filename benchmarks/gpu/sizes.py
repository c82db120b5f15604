"""The sizes of the models: small ones for a CPU, and those of real models for a GPU."""

from typing import NamedTuple

PATCH = 16  # pixels of a patch, in each direction
IMAGE_SIDE = 64  # pixels of the image in a request: 12 KiB, about as much as a JPEG of the size that the model takes
LABELS = 1000


class Vision(NamedTuple):
    """A vision transformer. It scales the image of a request up to `pixels` in each direction."""

    pixels: int
    width: int
    depth: int
    heads: int


class Decoder(NamedTuple):
    """A decoder. It keeps keys and values of `positions` tokens for each stream."""

    vocabulary: int
    positions: int
    width: int
    depth: int
    heads: int


class Size(NamedTuple):
    """Both models. `batch` images run at once in each of `instances` processes, and `streams` in the decoder."""

    vision: Vision
    decoder: Decoder
    batch: int
    instances: int
    streams: int
    prompt: int
    tokens: int
    """What a request asks for."""

    @property
    def in_flight(self) -> int:
        """How many images keep the model busy, whatever lies between it and the load."""
        return 8 * self.batch * self.instances


SIZES = {
    "tiny": Size(Vision(64, 64, 2, 2), Decoder(1_000, 64, 64, 2, 2), 8, 1, 8, 16, 16),
    "small": Size(Vision(112, 192, 6, 3), Decoder(8_000, 128, 256, 6, 4), 8, 1, 8, 32, 32),
    "base": Size(Vision(224, 768, 12, 12), Decoder(32_000, 512, 1024, 24, 16), 32, 2, 32, 64, 64),  # ViT-B/16
    "large": Size(Vision(224, 1024, 24, 16), Decoder(32_000, 512, 1280, 36, 20), 32, 2, 32, 64, 64),  # ViT-L/16
}


def choose_size(wanted: str, gpu: bool) -> str:
    """Return the name of a size; `auto` is the one of ViT-B/16 on a GPU, and the smallest on a CPU."""
    if wanted != "auto":
        return wanted
    return "base" if gpu else "tiny"


def count_vision(size: Vision) -> int:
    """Return the parameters of the vision transformer."""
    patches = (size.pixels // PATCH) ** 2
    embedding = 3 * PATCH**2 * size.width + size.width + (patches + 2) * size.width
    return embedding + _count_blocks(size.depth, size.width) + 2 * size.width + (size.width + 1) * LABELS


def count_decoder(size: Decoder) -> int:
    """Return the parameters of the decoder, whose output layer is its table of tokens."""
    tables = (size.vocabulary + size.positions) * size.width
    return tables + _count_blocks(size.depth, size.width) + 2 * size.width


def _count_blocks(depth: int, width: int) -> int:
    return depth * (12 * width**2 + 13 * width)
