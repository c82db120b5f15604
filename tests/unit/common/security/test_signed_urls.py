"""Signed URLs of outputs and files."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs
from uuid import UUID

import pytest

from common import ids
from common.errors import SettingsError
from common.security.signed_urls import MIN_KEY, VALID, UrlSigner

KEY, OLD = "new" * 11, "old" * 11
JOB, OTHER = UUID(int=1), UUID(int=2)
AT = datetime(2026, 11, 21, tzinfo=UTC)


def read(query: str) -> tuple[int, str]:
    values = parse_qs(query)
    return int(values["expires"][0]), values["signature"][0]


def test_what_was_signed_is_genuine_for_that_job_and_time_only() -> None:
    grants = UrlSigner([KEY])
    expires, signature = read(grants.sign(JOB, AT))
    assert expires == (AT + VALID).timestamp()
    assert grants.is_valid(JOB, expires, signature)
    assert not grants.is_valid(OTHER, expires, signature)
    assert not grants.is_valid(JOB, expires + 1, signature)
    assert not grants.is_valid(JOB, expires, signature[:-1] + "é")


def test_a_lifetime_may_be_shorter() -> None:
    expires, signature = read(UrlSigner([KEY]).sign(JOB, AT, timedelta(minutes=5)))
    assert expires == (AT + timedelta(minutes=5)).timestamp()
    assert UrlSigner([KEY]).is_valid(JOB, expires, signature)


def test_the_url_of_a_file_that_jobs_share_is_good_for_one_of_them() -> None:
    signer = UrlSigner([KEY])
    query = signer.sign(OTHER, AT, job=JOB)
    expires, signature = read(query)
    assert parse_qs(query)["job"] == [ids.encode(ids.Kind.JOB, JOB)]
    assert signer.is_valid(OTHER, expires, signature, JOB)
    assert not signer.is_valid(OTHER, expires, signature)
    assert not signer.is_valid(OTHER, expires, signature, UUID(int=3))
    assert not signer.is_valid(JOB, expires, signature, JOB)
    assert "job" not in signer.sign(OTHER, AT)


def test_an_older_key_still_verifies_and_an_unknown_one_does_not() -> None:
    expires, signature = read(UrlSigner([OLD]).sign(JOB, AT))
    assert UrlSigner([KEY, OLD]).is_valid(JOB, expires, signature)
    assert not UrlSigner([KEY]).is_valid(JOB, expires, signature)


@pytest.mark.parametrize("keys", [[], ["k" * (MIN_KEY - 1)], [KEY, ""]])
def test_missing_and_short_keys_are_refused(keys: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_URL_KEYS is wrong: expected one or more keys"):
        UrlSigner(keys)
