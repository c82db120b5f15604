"""A name in a path stays one part of it, or is refused before anything is sent."""

import pytest
from charonia import Charonia
from charonia.errors import InvalidInput
from charonia.paths import PARAMETERS, make_path


@pytest.mark.parametrize("name", ["", ".", ".."])
@pytest.mark.parametrize("collection", PARAMETERS)
def test_a_name_of_something_else_is_refused(collection: str, name: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        make_path(collection, name)
    assert [problem.pointer for problem in raised.value.errors] == [PARAMETERS[collection]]


def test_a_model_with_a_slash_is_refused() -> None:
    with Charonia("http://gateway", "k") as client, pytest.raises(InvalidInput, match="name: is 'a/b'"):
        client.models.get("a/b")


def test_a_name_is_one_part_of_the_path() -> None:
    assert make_path("models", "a?b#c d%2F", "/x") == "/v1/models/a%3Fb%23c%20d%252F/x"
    assert make_path("jobs", "a/b") == "/v1/jobs/a%2Fb"  # an id is opaque
