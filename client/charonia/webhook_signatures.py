"""Verifies and signs webhooks as Standard Webhooks 1.0.0 signs them: v1 (HMAC-SHA256) and v1a (ed25519)."""

import hashlib
import hmac
import os
import time
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence

from charonia.errors import ConfigurationError, InvalidSignature
from charonia.events import Event, parse_webhook

SECRET = "CHARONIA_WEBHOOK_SECRET"  # noqa: S105 -- the name of a variable
_HMAC, _ED25519 = "whsec_", "whpk_"
_NAMES = ("webhook-id", "webhook-timestamp", "webhook-signature")


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str] | None = None,
    *,
    tolerance: float = 300.0,
) -> Event:
    """Return the event of a webhook.

    `body` is the exact body as it was received. `secret` is the subscription's `whsec_…` or public key `whpk_…`;
    with several, any of them may have signed. Without it, CHARONIA_WEBHOOK_SECRET is used. A public key needs
    `charonia[ed25519]`. `tolerance` is how old the webhook may be, in seconds.

    Raise InvalidSignature unless the webhook is genuine and fresh, and ConfigurationError for a wrong secret. A
    genuine webhook that this version cannot read is an UnknownEvent; InvalidResponse means that it is no JSON object.
    """
    content = body.encode() if isinstance(body, str) else bytes(body)
    lower = {name.lower(): value for name, value in headers.items()}
    if missing := [name for name in _NAMES if not lower.get(name)]:
        raise InvalidSignature(f"the request has no {', '.join(missing)}; it is not a webhook of Charonia")
    message_id, timestamp, signatures = (lower[name] for name in _NAMES)
    _check_age(timestamp, tolerance)
    signed = f"{message_id}.{timestamp}.".encode() + content
    secret = os.environ.get(SECRET) if secret is None else secret
    if not secret:
        raise ConfigurationError(f"no secret is known; pass the one of the subscription, or set {SECRET}")
    secrets = [secret] if isinstance(secret, str) else secret
    if not any(_is_signed_by(each, signed, signatures) for each in secrets):
        raise InvalidSignature("no signature matches; check the secret, and that the body is the exact bytes received")
    return parse_webhook(message_id, content)


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`. Raise ConfigurationError unless the secret is `whsec_…`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return f"v1,{b64encode(hmac.digest(_read_key(secret, _HMAC), signed, hashlib.sha256)).decode()}"


def new_secret() -> str:
    """Return a new random secret."""
    return _HMAC + b64encode(os.urandom(32)).decode()


def _check_age(timestamp: str, tolerance: float) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 20):
        raise InvalidSignature("webhook-timestamp is not a whole number of seconds")
    age = time.time() - int(timestamp)
    if abs(age) > tolerance:
        when = f"{age:.0f} s old" if age > 0 else f"{-age:.0f} s in the future"
        raise InvalidSignature(f"the webhook is {when}; at most {tolerance:.0f} s are allowed. Check the clock")


def _is_signed_by(secret: str, signed: bytes, signatures: str) -> bool:
    if secret.startswith(_HMAC):
        expected = hmac.digest(_read_key(secret, _HMAC), signed, hashlib.sha256)
        return any(hmac.compare_digest(expected, each) for each in _list_signatures(signatures, "v1"))
    key = _read_key(secret, _ED25519)
    return any(_is_signed_by_ed25519(key, each, signed) for each in _list_signatures(signatures, "v1a"))


def _list_signatures(header: str, version: str) -> list[bytes]:
    found = []
    for each in header.split()[:20]:
        kind, _, encoded = each.partition(",")
        if kind == version:
            try:
                found.append(b64decode(encoded, validate=True))
            except (Base64Error, ValueError):
                continue
    return found


def _read_key(secret: str, prefix: str) -> bytes:
    try:
        if secret.startswith(prefix) and (key := b64decode(secret.removeprefix(prefix), validate=True)):
            return key
    except (Base64Error, ValueError):
        pass
    raise ConfigurationError("the secret must be the subscription's whsec_… or whpk_…")  # never show it


def _is_signed_by_ed25519(key: bytes, signature: bytes, signed: bytes) -> bool:
    try:  # here, because few need it
        from cryptography.exceptions import InvalidSignature as Mismatch
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        text = "a public key whpk_… needs the package cryptography: pip install cryptography"
        raise ConfigurationError(text) from error
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    except (Mismatch, ValueError):
        return False
    return True
