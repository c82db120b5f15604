"""The fields of a submit besides its inputs."""

from typing import Any

import pytest
from charonia.errors import InvalidInput
from charonia.requests import make_fields

from tests.unit.client.test_inputs import make_loop


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"b": (1, -float("inf"))}, make_loop()])
def test_metadata_that_json_cannot_have_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="/metadata: has a NaN"):
        make_fields("m", None, None, {"a": value}, None)
    assert make_fields("m", None, None, {"a": [1.5, None, "x"]}, None)["metadata"] == {"a": [1.5, None, "x"]}


def test_options_that_json_cannot_have_are_refused() -> None:
    with pytest.raises(InvalidInput, match="/expires_in: has a NaN"):
        make_fields("m", None, None, None, {"expires_in": float("nan")})
