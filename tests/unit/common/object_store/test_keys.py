"""Keys of objects."""

from uuid import UUID

import pytest

from common.object_store.keys import make_key

TENANT, JOB = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("name", ["inputs", "output-12", "a.npy", "a" * 64])
def test_a_key_is_tenant_owner_and_name(name: str) -> None:
    assert make_key(TENANT, JOB, name) == f"{TENANT}/{JOB}/{name}"


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a#1", "Ä", "A", "a b", "a\n", "a" * 65])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name of an object"):
        make_key(TENANT, JOB, name)
