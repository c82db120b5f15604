"""A pipeline that reads the lines of an image, then the words of each line and of all lines, and what it makes."""

from typing import Any

from tests.support.api.model_inputs import LINES

DEFINITION: dict[str, Any] = {
    "inputs": {"image": {"datatype": "BYTES", "shape": [1]}},
    "steps": {
        "read": {"model": "ocr", "inputs": {"image": "$inputs.image"}},
        "lines": {"model": "words", "inputs": {"text": "$read.text"}, "for_each": "text"},
        "page": {"model": "words", "inputs": {"text": "$lines.words"}},
    },
    "outputs": {"text": "$read.text", "counts": "$lines.count", "total": "$page.count"},
}
COUNTS = [len(set(line.lower().split())) for line in LINES]
TOTAL = [len({word for line in LINES for word in line.lower().split()})]
