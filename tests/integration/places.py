"""The place of the objects of tests that are not about the object store."""

import pytest

from tests.integration.common.object_store.conftest import Place

BOTH = pytest.mark.parametrize("place", ["folder", "bucket"], indirect=True)


@pytest.fixture(name="place")
def one_place(request: pytest.FixtureRequest) -> Place:
    """A local folder, unless a test asks for BOTH."""
    found: Place = request.getfixturevalue(getattr(request, "param", "folder"))
    return found
