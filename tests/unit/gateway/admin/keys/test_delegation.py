"""A key gives no more than it has."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.admin.keys.delegation import covers, grant_expiry, grant_models, grant_rate
from services.gateway.http.problems import Problem

LATE = datetime(2030, 1, 1, tzinfo=UTC)
SOONER = LATE - timedelta(days=1)
PATTERNS = st.text("ab*?[]!-", min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("own", "wanted", "granted"),
    [
        (None, None, None),
        (None, ["ocr*"], ["ocr*"]),
        (("ocr*", "echo"), None, ["ocr*", "echo"]),
        (("ocr*", "echo"), ["ocr-2", "echo"], ["ocr-2", "echo"]),
        (("ocr*",), ["ocr-*-v?"], ["ocr-*-v?"]),
        (("a?",), ["a?", "ab"], ["a?", "ab"]),
        (("*",), ["[ab]c"], ["[ab]c"]),
    ],
)
def test_models_within_those_of_the_key_are_given(
    own: Sequence[str] | None, wanted: list[str] | None, granted: list[str] | None
) -> None:
    assert grant_models(own, wanted) == granted


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        (("ocr*",), "echo"),
        (("ocr*",), "*"),
        (("ocr*",), "oc*"),
        (("ocr",), "ocr*"),
        (("a?",), "a*"),
        (("[a*]b",), "*b"),
        (("*b]",), "[ab]"),
    ],
)
def test_more_models_are_refused(own: Sequence[str], wanted: str) -> None:
    with pytest.raises(Problem, match="cannot give more models than it has") as refused:
        grant_models(own, [wanted])
    assert (refused.value.status, refused.value.code) == (403, "forbidden")


@given(PATTERNS, PATTERNS, st.text("ab*?[]!-", max_size=4))
def test_a_covered_pattern_matches_nothing_else(own: str, wanted: str, model: str) -> None:
    if covers(own, wanted) and fnmatchcase(model, wanted):
        assert fnmatchcase(model, own)


@pytest.mark.parametrize(
    ("own", "wanted", "default", "granted"),
    [
        (None, None, 0, None),
        (None, 0, 0, 0),
        (None, 50, 0, 50),
        (None, 5, 10, 5),
        (7, None, 0, 7),
        (7, 7, 3, 7),
        (0, 9000, 10, 9000),
        (0, 0, 10, 0),
    ],
)
def test_a_rate_limit_up_to_that_of_the_key_is_given(
    own: int | None, wanted: int | None, default: int, granted: int | None
) -> None:
    assert grant_rate(own, wanted, default) == granted


@pytest.mark.parametrize(("own", "wanted", "default"), [(7, 8, 0), (7, 0, 0), (None, 11, 10), (None, 0, 10)])
def test_a_higher_rate_limit_is_refused(own: int | None, wanted: int, default: int) -> None:
    with pytest.raises(Problem, match="cannot give a higher rate limit than it has"):
        grant_rate(own, wanted, default)


def test_a_key_outlives_no_key_that_made_it() -> None:
    assert grant_expiry(None, None) is None
    assert grant_expiry(None, LATE) == LATE
    assert grant_expiry(LATE, None) == LATE
    assert grant_expiry(LATE, SOONER) == SOONER
    with pytest.raises(Problem, match="cannot give a later expires_at"):
        grant_expiry(SOONER, LATE)
