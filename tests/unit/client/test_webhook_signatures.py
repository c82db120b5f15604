"""`verify` accepts what Charonia and the public libraries sign, and nothing else."""

import json
import sys
import time
from datetime import datetime, timezone
from typing import Any

import charonia
import pytest
from charonia import webhook_signatures as client_signatures
from charonia.webhook_signatures import _is_signed_by
from standardwebhooks import Webhook

from common.security import webhook_signatures

BODY = json.dumps({"type": "webhook.test", "timestamp": "2026-11-21T02:53:41.250Z", "data": {"id": "whk_1"}})
# The vectors of Standard Webhooks.
VECTOR = b'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
V1 = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
V1A = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
V1_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
V1A_KEY = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="


def sign(secrets: list[str], body: str = BODY, at: float | None = None) -> dict[str, str]:
    timestamp = int(time.time() if at is None else at)
    signature = webhook_signatures.sign(secrets, "dlv_1", timestamp, body.encode())
    return {"Webhook-Id": "dlv_1", "Webhook-Timestamp": str(timestamp), "Webhook-Signature": signature}


def test_the_vectors_of_the_standard_verify() -> None:
    assert _is_signed_by(V1_SECRET, VECTOR, f"{V1A} {V1}")
    assert _is_signed_by(V1A_KEY, VECTOR, f"{V1} {V1A}")
    assert not _is_signed_by(V1_SECRET, VECTOR + b" ", V1)
    assert not _is_signed_by(V1A_KEY, VECTOR + b" ", V1A)


@pytest.mark.parametrize("kind", ["hmac", "ed25519"])
def test_a_webhook_of_charonia_becomes_an_event(kind: Any) -> None:
    secret = webhook_signatures.new_secret(kind)
    shown = secret if kind == "hmac" else webhook_signatures.public_key(secret)
    event = charonia.verify(BODY.encode(), sign([webhook_signatures.new_secret(kind), secret]), shown)
    assert isinstance(event, charonia.WebhookEvent)
    assert (event.id, event.type, event.data.id) == ("dlv_1", "webhook.test", "whk_1")
    assert event.timestamp == datetime(2026, 11, 21, 2, 53, 41, 250_000, timezone.utc)  # noqa: UP017 -- as for 3.10


def test_the_public_library_and_this_one_agree() -> None:
    secret = webhook_signatures.new_secret("hmac")
    now = datetime.now(timezone.utc)  # noqa: UP017
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", now, BODY),
    }
    assert charonia.verify(BODY, headers, secret).id == "msg_1"


def test_during_a_rotation_either_secret_verifies() -> None:
    old, new = webhook_signatures.new_secret("hmac"), webhook_signatures.new_secret("hmac")
    for known in (old, new, [new, old]):
        assert charonia.verify(BODY, sign([old, new]), known).type == "webhook.test"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"Webhook-Id": "dlv_2"}, "no signature matches"),
        ({"Webhook-Id": ""}, "the request has no webhook-id"),
        ({"Webhook-Timestamp": "x"}, "not a whole number"),
        ({"Webhook-Timestamp": str(int(time.time()) - 600)}, "s old; at most 300 s"),
        ({"Webhook-Timestamp": str(int(time.time()) + 3600)}, "s in the future"),
        ({"Webhook-Signature": "v1,!!! v1a,AAAA v2,AAAA v1"}, "no signature matches"),
    ],
)
def test_what_is_not_genuine_is_refused(change: dict[str, str], text: str) -> None:
    secret = webhook_signatures.new_secret("hmac")
    with pytest.raises(charonia.InvalidSignature, match=text):
        charonia.verify(BODY, sign([secret]) | change, secret)


@pytest.mark.parametrize("secret", ["", "my-password", "whsec_!", "whsk_AAAA", []])
def test_a_wrong_secret_is_not_shown(secret: Any) -> None:
    with pytest.raises(charonia.ConfigurationError) as caught:
        charonia.verify(BODY, sign([webhook_signatures.new_secret("hmac")]), secret)
    assert not secret or secret not in str(caught.value)


def test_a_secret_without_a_key_is_refused() -> None:
    with pytest.raises(charonia.ConfigurationError):
        charonia.verify(BODY, sign([webhook_signatures.new_secret("hmac")]), "whsec_")


def test_an_unknown_type_is_an_event_too() -> None:
    secret = webhook_signatures.new_secret("hmac")
    body = '{"type": "file.created", "timestamp": "2026-11-21T02:53:41Z", "data": {"x": 1}, "more": 2}'
    event = charonia.verify(body, sign([secret], body), secret)
    assert isinstance(event, charonia.UnknownEvent)
    assert event.data == {"x": 1}


def test_bytes_that_are_no_key_or_signature_are_refused() -> None:
    short = V1A_KEY.removeprefix("whpk_")[:-4]
    assert not _is_signed_by(f"whpk_{short}", VECTOR, V1A)
    assert not _is_signed_by(V1A_KEY, VECTOR, "v1a,AAAA")


def test_only_a_public_key_needs_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert _is_signed_by(V1_SECRET, VECTOR, f"{V1A} {V1}")
    with pytest.raises(charonia.ConfigurationError, match=r"pip install cryptography$"):
        _is_signed_by(V1A_KEY, VECTOR, V1A)


def test_what_the_client_signs_is_genuine() -> None:
    message_id, timestamp, body = VECTOR.split(b".", 2)
    assert client_signatures.sign(V1_SECRET, message_id.decode(), int(timestamp), body) == V1
    secret, now = client_signatures.new_secret(), int(time.time())
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(now)}
    headers["webhook-signature"] = client_signatures.sign(secret, "evt_1", now, BODY.encode())
    assert charonia.verify(BODY, headers, secret).id == "evt_1"
    assert Webhook(secret).verify(BODY, headers)
    with pytest.raises(charonia.ConfigurationError, match="whsec_"):
        client_signatures.sign(V1A_KEY, "evt_1", now, b"")
