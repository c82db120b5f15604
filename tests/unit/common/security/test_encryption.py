"""Secrets at rest."""

import pytest
from cryptography.fernet import Fernet

from common.errors import SecretUnreadable, SettingsError
from common.security.encryption import Encryptor

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def test_what_is_sealed_opens_and_does_not_show() -> None:
    sealed = Encryptor([OLD]).encrypt(b"whsec_abc")
    assert b"whsec" not in sealed
    assert Encryptor([OLD]).decrypt(sealed) == b"whsec_abc"


def test_keys_rotate() -> None:
    sealed = Encryptor([OLD]).encrypt(b"secret")
    both = Encryptor([NEW, OLD])
    assert both.decrypt(sealed) == b"secret"
    assert Encryptor([NEW]).decrypt(both.encrypt(b"secret")) == b"secret"
    with pytest.raises(SecretUnreadable, match=r"^No key of CHARONIA_ENCRYPTION_KEYS decrypts this secret"):
        Encryptor([NEW]).decrypt(sealed)


@pytest.mark.parametrize("keys", [[], ["short"], [OLD, "!" * 44]])
def test_wrong_keys_name_the_variable_and_do_not_show(keys: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_ENCRYPTION_KEYS is wrong: expected one or more keys") as caught:
        Encryptor(keys)
    assert not any(key in str(caught.value) for key in keys)
