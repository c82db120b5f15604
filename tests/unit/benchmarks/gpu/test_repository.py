"""The model repository that Triton reads."""

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from benchmarks.gpu.repository import DECODER, VISION, write_models
from benchmarks.gpu.sizes import SIZES


def read_configuration(folder: Path) -> model_config_pb2.ModelConfig:
    text = (folder / "config.pbtxt").read_text()
    return text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize("name", SIZES)
def test_each_size_has_complete_configurations(name: str, tmp_path: Path) -> None:
    size = SIZES[name]
    write_models(tmp_path, size)
    vision, decoder = read_configuration(tmp_path / VISION), read_configuration(tmp_path / DECODER)
    assert (vision.name, vision.max_batch_size, vision.instance_group[0].count) == (VISION, size.batch, size.instances)
    assert vision.HasField("dynamic_batching")
    assert (decoder.name, decoder.max_batch_size, decoder.instance_group[0].count) == (DECODER, size.streams, 1)
    assert decoder.model_transaction_policy.decoupled
    assert json.loads(vision.parameters["size"].string_value)["width"] == size.vision.width
    assert json.loads(decoder.parameters["size"].string_value)["streams"] == size.streams


def test_each_model_has_its_programs(tmp_path: Path) -> None:
    write_models(tmp_path, SIZES["tiny"])
    programs = {folder.name: sorted(file.name for file in (folder / "1").iterdir()) for folder in tmp_path.iterdir()}
    assert programs[VISION] == ["images.py", "measured.py", "model.py", "network.py"]
    assert programs[DECODER] == ["measured.py", "model.py", "network.py", "scheduler.py"]
    assert all(file.exists() for folder in tmp_path.iterdir() for file in (folder / "1").iterdir())
