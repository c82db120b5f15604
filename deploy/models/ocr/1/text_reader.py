"""Reads lines of text from an image. ocr_stream/1/text_reader.py is a link to this file: Triton puts a
model's version folder on its path, so both models import it without any setting of the server."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

PIXELS = 40_000_000  # of the decoded image; a small file can claim a gigantic one
SOUGHT = 960  # pixels of the longer side
BASE64 = re.compile(rb"[A-Za-z0-9+/=\s]{40,200}")
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(PIXELS))  # read when cv2 is imported

import cv2  # noqa: E402
import numpy as np  # noqa: E402
from rapidocr_onnxruntime import RapidOCR  # noqa: E402


class UnreadableImage(ValueError):
    """The bytes are no image that can be decoded."""


@dataclass(frozen=True)
class Line:
    text: str
    box: np.ndarray  # FP32 [4, 2]: corners in pixels, clockwise from the top left
    score: float  # 0 to 1


class Reader:
    """One engine, which the first image loads; not for use by several threads at once."""

    def __init__(self, threads: int = 1, score: float = 0.5) -> None:
        cv2.setNumThreads(threads)
        self._threads = threads
        self._score = score

    @cached_property
    def _engine(self) -> RapidOCR:
        """It takes half a second of a core, which each start of a server would take for both models."""
        return RapidOCR(
            intra_op_num_threads=self._threads,
            inter_op_num_threads=self._threads,
            # Lines are sought in an image of at most this size; the default enlarges small ones, at a cost.
            det_limit_type="max",
            det_limit_side_len=SOUGHT,
        )

    def read(self, content: bytes) -> Iterator[Line]:
        """Yield each line, from top to bottom, as soon as it is recognised.

        Raises UnreadableImage before the first line.
        """
        image = decode(content)
        found, _ = self._engine(image, use_cls=False, use_rec=False)
        if not found:
            return
        boxes = [np.array(box, dtype=np.float32) for box in found]
        for box, crop in zip(boxes, self._engine.get_crop_img_list(image, boxes), strict=True):
            recognised, _ = self._engine(crop, use_det=False)
            for text, score in recognised or []:
                if text and score >= self._score:
                    yield Line(text, box, float(score))


def decode(content: bytes) -> np.ndarray:
    """Return the image as height × width × 3 bytes (BGR)."""
    try:
        image = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), cv2.IMREAD_COLOR) if content else None
    except cv2.error as error:
        raise UnreadableImage(f"image of more than {PIXELS} pixels, or broken") from error
    if image is None:
        raise UnreadableImage(f"{len(content)} bytes that are no image this model can decode{guess_cause(content)}")
    return image


def guess_cause(content: bytes) -> str:
    """Return the likely reason why content is no image."""
    if content.startswith(b"data:") or BASE64.fullmatch(content[:200]):
        return '; they look like base64, so send the image as {"base64": "..."}'
    return ""
