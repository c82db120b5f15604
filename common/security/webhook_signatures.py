"""Signatures of webhooks, as in Standard Webhooks 1.0.0. Pure.

A secret starts with `whsec_` (then base64 of 32 bytes; HMAC-SHA256, v1) or with `whsk_` (then base64 of an ed25519
seed and its public key; v1a).
"""

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_HMAC, _PRIVATE, _PUBLIC = "whsec_", "whsk_", "whpk_"
_SEED_BYTES = 32


def new_secret(kind: Literal["hmac", "ed25519"]) -> str:
    """Return a new random secret."""
    seed = os.urandom(_SEED_BYTES)
    if kind == "hmac":
        return _HMAC + b64encode(seed).decode()
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return _PRIVATE + b64encode(seed + public).decode()


def public_key(secret: str) -> str:
    """Return the `whpk_…` that receivers verify with. Raise ValueError unless the secret is `whsk_…`."""
    return _PUBLIC + b64encode(_read_key(secret, _PRIVATE)[_SEED_BYTES:]).decode()


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`, with one signature for each secret.

    `timestamp` is in Unix seconds. Raise ValueError for text that is not a secret.
    """
    content = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(_sign_with(secret, content) for secret in secrets)


def _sign_with(secret: str, content: bytes) -> str:
    if secret.startswith(_HMAC):
        signature = hmac.digest(_read_key(secret, _HMAC), content, hashlib.sha256)
        return f"v1,{b64encode(signature).decode()}"
    seed = _read_key(secret, _PRIVATE)[:_SEED_BYTES]
    return f"v1a,{b64encode(Ed25519PrivateKey.from_private_bytes(seed).sign(content)).decode()}"


def _read_key(secret: str, prefix: str) -> bytes:
    if not secret.startswith(prefix):
        raise ValueError(f"not a secret of the form {prefix}…")  # without the text, which must not reach a log
    return b64decode(secret.removeprefix(prefix), validate=True)
