"""Other libraries for Standard Webhooks accept Charonia's signatures, and `verify` accepts theirs."""

import json
from collections.abc import Callable
from datetime import datetime, timezone

import charonia
import pytest
import standardwebhooks
import svix

from common.security import webhook_signatures

SECRET = webhook_signatures.new_secret("hmac")
BODY = '{"type": "webhook.test", "timestamp": "2026-11-21T02:53:41.250Z", "data": {"id": "größe"}}'


def read_time() -> datetime:
    return datetime.now(timezone.utc)  # noqa: UP017 -- as for Python 3.10


def make_headers(now: datetime, signature: str) -> dict[str, str]:
    at = str(int(now.timestamp()))
    return {"webhook-id": "dlv_1", "webhook-timestamp": at, "webhook-signature": signature}


@pytest.mark.parametrize("sign", [standardwebhooks.Webhook(SECRET).sign, svix.Webhook(SECRET).sign])
def test_what_they_sign_verifies(sign: Callable[[str, datetime, str], str]) -> None:
    now = read_time()
    event = charonia.verify(BODY.encode(), make_headers(now, sign("dlv_1", now, BODY)), SECRET)
    assert isinstance(event, charonia.WebhookEvent)
    assert event.data.id == "größe"


def test_what_charonia_signs_verifies_with_them() -> None:
    import openai  # a second of CPU, which each worker would spend while it looks for tests

    now, secrets = read_time(), [webhook_signatures.new_secret("ed25519"), SECRET]
    headers = make_headers(now, webhook_signatures.sign(secrets, "dlv_1", int(now.timestamp()), BODY.encode()))
    assert standardwebhooks.Webhook(SECRET).verify(BODY, headers) == json.loads(BODY)
    svix.Webhook(SECRET).verify(BODY, headers)
    with pytest.raises(svix.WebhookVerificationError):
        svix.Webhook(SECRET).verify(BODY + " ", headers)
    with openai.OpenAI(api_key="none") as client:
        client.webhooks.unwrap(BODY, headers, secret=SECRET)
        with pytest.raises(openai.InvalidWebhookSignatureError):
            client.webhooks.unwrap(BODY + " ", headers, secret=SECRET)
