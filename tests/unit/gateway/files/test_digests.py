"""The SHA-256 that a client announces."""

import base64
import hashlib

import pytest

from services.gateway.files.digests import read_digest
from services.gateway.http.problems import Problem

DIGEST = hashlib.sha256(b"content").digest()
HEADER = f"sha-256=:{base64.b64encode(DIGEST).decode()}:"


@pytest.mark.parametrize(
    ("header", "parameter"),
    [
        (HEADER, None),
        (f"sha-512=:AAAA:, {HEADER}", None),
        (HEADER.upper().replace(HEADER[9:].upper(), HEADER[9:]), None),
        (None, DIGEST.hex()),
        (None, DIGEST.hex().upper()),
        (HEADER, DIGEST.hex()),
    ],
)
def test_it_is_in_a_header_or_a_parameter(header: str | None, parameter: str | None) -> None:
    assert read_digest(header, parameter) == DIGEST


def test_it_may_be_absent() -> None:
    assert read_digest(None, None) is None


@pytest.mark.parametrize(
    ("header", "parameter", "pointer"),
    [
        ("sha-512=:AAAA:", None, "Content-Digest"),
        ("sha-256=:AAAA:", None, "Content-Digest"),
        ("sha-256=:A:", None, "Content-Digest"),
        (DIGEST.hex(), None, "Content-Digest"),
        (None, "abc", "sha256"),
        (HEADER, "0" * 64, "sha256"),
    ],
)
def test_a_wrong_one_is_named(header: str | None, parameter: str | None, pointer: str) -> None:
    with pytest.raises(Problem) as caught:
        read_digest(header, parameter)
    assert [each.pointer for each in caught.value.errors] == [pointer]
