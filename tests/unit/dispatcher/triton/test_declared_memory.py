"""A model declares what it takes, and whether it stays."""

from collections.abc import Mapping

import pytest

from services.dispatcher.triton.declared_memory import find_wrong_settings, read_keep, read_memory
from services.dispatcher.triton.model_version import ModelVersion


@pytest.mark.parametrize(
    ("settings", "memory", "keep", "wrong"),
    [
        ({}, None, False, set()),
        ({"charonia.memory": "2 GiB", "charonia.keep": "true"}, 2**31, True, set()),
        ({"charonia.memory": "much", "charonia.keep": "yes"}, None, False, {"charonia.memory", "charonia.keep"}),
        ({"charonia.keep": "false"}, None, False, set()),
    ],
)
def test_a_setting_that_cannot_be_read_has_no_effect(
    settings: Mapping[str, str], memory: int | None, keep: bool, wrong: set[str]
) -> None:
    assert (read_memory(settings), read_keep(settings)) == (memory, keep)
    model = ModelVersion("m", "1", False, 0, 1, [], [], settings)
    assert find_wrong_settings(model).keys() == wrong
