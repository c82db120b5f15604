"""What Triton's description of a model says, above all its parameter `charonia.reference`."""

import pytest
from tritonclient.grpc import model_config_pb2, service_pb2

from services.dispatcher.triton.model_version import (
    MAX_SETTING,
    MAX_SETTINGS,
    ModelVersion,
    find_wrong_references,
    read_settings,
    read_steps,
    read_version,
)

INPUTS = {"audio": "BYTES", "video": "BYTES", "rate": "INT32"}


def describe(parameters: dict[str, str]) -> tuple[ModelVersion, list[str]]:
    metadata = service_pb2.ModelMetadataResponse(name="asr", versions=["1"])
    config = model_config_pb2.ModelConfig(name="asr", backend="python")
    for name, datatype in INPUTS.items():
        metadata.inputs.add(name=name, datatype=datatype, shape=[1])
        config.input.add(name=name, optional=name == "video")
    for name, value in parameters.items():
        config.parameters[name].string_value = value
    version = read_version("asr", "1", metadata, config)
    return version, find_wrong_references(version, config)


@pytest.mark.parametrize(
    ("parameters", "references", "wrong"),
    [
        ({}, [], []),
        ({"charonia.reference": ""}, [], []),
        ({"charonia.reference": "audio"}, ["audio"], []),
        ({"charonia.reference": "video, audio,"}, ["audio", "video"], []),
        ({"charonia.reference": "audio,rate,text"}, ["audio"], ["rate", "text"]),
        ({"reference": "audio"}, [], []),
    ],
)
def test_a_parameter_names_the_inputs_that_a_model_reads_itself(
    parameters: dict[str, str], references: list[str], wrong: list[str]
) -> None:
    version, found = describe(parameters)
    assert [each.name for each in version.inputs if each.reference] == references
    assert version.takes_references is bool(references)
    assert found == wrong
    assert [each.optional for each in version.inputs] == [False, True, False]


def test_settings_are_the_backend_and_the_parameters_with_the_prefix() -> None:
    version, _ = describe({"charonia.openai": "vllm", "charonia.x": "a\0b", "FORCE_CPU_ONLY_INPUT_TENSORS": "no"})
    assert version.settings == {"backend": "python", "charonia.openai": "vllm", "charonia.x": "a\ufffdb"}


def test_the_steps_of_an_ensemble_are_a_setting() -> None:
    config = model_config_pb2.ModelConfig(name="twice", platform="ensemble")
    assert read_steps(read_settings(config)) == []
    for name in ("b", "a", "b"):
        config.ensemble_scheduling.step.add(model_name=name)
    assert read_steps(read_settings(config)) == ["a", "b"]
    config.ensemble_scheduling.step.add(model_name="x" * MAX_SETTING)
    assert read_steps(read_settings(config)) == []


def test_settings_are_bounded_and_a_long_one_is_seen_to_be_cut() -> None:
    version, _ = describe({f"charonia.{letter}": "x" * (2 * MAX_SETTING) for letter in "abc"})
    assert list(version.settings) == ["backend", "charonia.a"]
    assert len(version.settings["charonia.a"]) == MAX_SETTING + 1
    assert MAX_SETTINGS - len("charonia.a") - len("charonia.b") < 2 * (MAX_SETTING + 1)
