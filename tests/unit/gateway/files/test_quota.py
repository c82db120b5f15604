"""A tenant's files have a limit in bytes and in number."""

import pytest

from services.gateway.files.quota import Quota, Usage, check_quota
from services.gateway.http.problems import Problem

QUOTA = Quota(files=3, size=100)


@pytest.mark.parametrize(("usage", "size"), [((0, 0), 100), ((2, 60), 40), ((2, 100), 0)])
def test_what_fits_is_accepted(usage: tuple[int, int], size: int) -> None:
    check_quota(QUOTA, Usage(*usage), size)


@pytest.mark.parametrize(
    ("usage", "size", "status", "code", "limit"),
    [
        ((0, 0), 101, 413, "body_too_large", "CHARONIA_MAX_STORED_BYTES"),
        ((1, 61), 40, 429, "quota_exceeded", "CHARONIA_MAX_STORED_BYTES"),
        ((3, 0), 0, 429, "quota_exceeded", "CHARONIA_MAX_FILES"),
    ],
)
def test_what_does_not_fit_is_refused(usage: tuple[int, int], size: int, status: int, code: str, limit: str) -> None:
    with pytest.raises(Problem) as caught:
        check_quota(QUOTA, Usage(*usage), size)
    assert (caught.value.status, caught.value.code, limit in caught.value.detail) == (status, code, True)
    assert ("Retry-After" in caught.value.headers) == (status == 429)
