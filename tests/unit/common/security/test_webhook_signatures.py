"""Standard Webhooks signatures, against its vectors and its own library."""

from base64 import b64decode
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook

from common.security.webhook_signatures import new_secret, public_key, sign

ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
TIMESTAMP = 1614265330
BODY = b'{"test": 2432232314}'
HMAC_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HMAC_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
ED25519_SECRET = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
ED25519_PUBLIC = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
ED25519_SIGNATURE = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="


@pytest.mark.parametrize(("secret", "signature"), [(HMAC_SECRET, HMAC_SIGNATURE), (ED25519_SECRET, ED25519_SIGNATURE)])
def test_vectors(secret: str, signature: str) -> None:
    assert sign([secret], ID, TIMESTAMP, BODY) == signature


def test_every_secret_signs_in_order() -> None:
    both = sign([HMAC_SECRET, ED25519_SECRET], ID, TIMESTAMP, BODY)
    assert both == f"{HMAC_SIGNATURE} {ED25519_SIGNATURE}"


def test_the_public_key_is_the_one_of_the_vector() -> None:
    assert public_key(ED25519_SECRET) == ED25519_PUBLIC


@pytest.mark.parametrize("body", [b"{}", '{"text": "ü\U0001f41a", "n": 1.0}'.encode()])
def test_the_public_library_accepts_a_new_secrets_signature(body: bytes) -> None:
    secret, now = new_secret("hmac"), int(datetime.now(UTC).timestamp())
    headers = {
        "webhook-id": "dlv_1",
        "webhook-timestamp": str(now),
        "webhook-signature": sign([new_secret("hmac"), secret], "dlv_1", now, body),
    }
    Webhook(secret).verify(body, headers)


def test_a_new_ed25519_secret_signs_what_its_public_key_verifies() -> None:
    secret = new_secret("ed25519")
    signature = sign([secret], ID, TIMESTAMP, BODY)
    public = Ed25519PublicKey.from_public_bytes(b64decode(public_key(secret).removeprefix("whpk_")))
    public.verify(b64decode(signature.removeprefix("v1a,")), f"{ID}.{TIMESTAMP}.".encode() + BODY)


def test_new_secrets_have_the_forms_of_the_standard_and_differ() -> None:
    assert len(b64decode(new_secret("hmac").removeprefix("whsec_"))) == 32
    assert len(b64decode(new_secret("ed25519").removeprefix("whsk_"))) == 64
    assert new_secret("hmac") != new_secret("hmac")


@pytest.mark.parametrize("secret", ["", "secret", "whpk_AAAA"])
def test_other_text_is_no_secret_and_does_not_show_in_the_error(secret: str) -> None:
    with pytest.raises(ValueError, match="not a secret of the form whsk_…"):
        sign([secret], ID, TIMESTAMP, BODY)
