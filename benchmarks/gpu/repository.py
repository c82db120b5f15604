"""Writes the model repository of the benchmark: both models in one size."""

import json
from pathlib import Path

from benchmarks.gpu.sizes import IMAGE_SIDE, LABELS, PATCH, Size

MODELS = Path(__file__).parent / "models"
VISION, DECODER = "vision_transformer", "decoder"
MORE = """\
max_batch_size: {batch}
instance_group [ {{ kind: KIND_CPU count: {instances} }} ]
parameters {{ key: "size" value {{ string_value: {size} }} }}
"""


def write_models(directory: Path, size: Size) -> None:
    """Write both models into an existing folder; their programs are links."""
    vision = size.vision._asdict() | {"side": IMAGE_SIDE, "patch": PATCH, "labels": LABELS, "batch": size.batch}
    decoder = size.decoder._asdict() | {"streams": size.streams}
    _write(directory / VISION, vision, size.batch, size.instances)
    _write(directory / DECODER, decoder, size.streams, 1)


def _write(folder: Path, size: dict[str, int], batch: int, instances: int) -> None:
    program, source = folder / "1", MODELS / folder.name
    program.mkdir(parents=True)
    for file in (MODELS / "measured.py", *(source / "1").glob("*.py")):
        (program / file.name).symlink_to(file)
    # A string of a protobuf text has the escapes of JSON.
    more = MORE.format(batch=batch, instances=instances, size=json.dumps(json.dumps(size)))
    (folder / "config.pbtxt").write_text((source / "config.pbtxt").read_text() + more)
