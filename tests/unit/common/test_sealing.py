"""Secrets at rest."""

import pytest
from cryptography.fernet import Fernet, InvalidToken

from common.errors import SettingsError
from common.sealing import Sealer

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def test_what_is_sealed_opens_and_does_not_show() -> None:
    sealed = Sealer([OLD]).seal(b"whsec_abc")
    assert b"whsec" not in sealed
    assert Sealer([OLD]).open(sealed) == b"whsec_abc"


def test_keys_rotate() -> None:
    sealed = Sealer([OLD]).seal(b"secret")
    both = Sealer([NEW, OLD])
    assert both.open(sealed) == b"secret"
    assert Sealer([NEW]).open(both.seal(b"secret")) == b"secret"
    with pytest.raises(InvalidToken):
        Sealer([NEW]).open(sealed)


@pytest.mark.parametrize("keys", [[], ["short"], [OLD, "!" * 44]])
def test_wrong_keys_name_the_variable_and_do_not_show(keys: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_ENCRYPTION_KEYS is wrong: each key") as caught:
        Sealer(keys)
    assert not any(key in str(caught.value) for key in keys)
