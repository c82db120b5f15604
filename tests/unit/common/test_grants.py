"""Signed URLs of outputs."""

from datetime import UTC, datetime
from urllib.parse import parse_qs
from uuid import UUID

from common.grants import VALID, Grants

JOB, OTHER = UUID(int=1), UUID(int=2)
AT = datetime(2026, 11, 21, tzinfo=UTC)


def read(query: str) -> tuple[int, str]:
    values = parse_qs(query)
    return int(values["expires"][0]), values["signature"][0]


def test_what_was_signed_is_genuine_for_that_job_and_time_only() -> None:
    grants = Grants(["key"])
    expires, signature = read(grants.sign(JOB, AT))
    assert expires == (AT + VALID).timestamp()
    assert grants.is_genuine(JOB, expires, signature)
    assert not grants.is_genuine(OTHER, expires, signature)
    assert not grants.is_genuine(JOB, expires + 1, signature)
    assert not grants.is_genuine(JOB, expires, signature[:-1] + "é")


def test_an_older_key_still_verifies_and_an_unknown_one_does_not() -> None:
    expires, signature = read(Grants(["old"]).sign(JOB, AT))
    assert Grants(["new", "old"]).is_genuine(JOB, expires, signature)
    assert not Grants(["new"]).is_genuine(JOB, expires, signature)
