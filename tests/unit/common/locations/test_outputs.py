"""Where outputs go whose client named a location."""

from uuid import UUID

import pytest

from common.locations.location import MAX_KEY, InvalidLocation, Location
from common.locations.outputs import (
    MAX_PREFIX,
    locate_output,
    make_attempt_folder,
    make_safe,
    parse_output_location,
)

JOB = UUID(int=2**128 - 1)


def test_each_attempt_has_a_folder_of_its_own() -> None:
    first, second = (make_attempt_folder(Location("bucket", "out/"), JOB, claim) for claim in (1, 2))
    assert str(first) == "s3://bucket/out/job_7zzzzzzzzzzzzzzzzzzzzzzzzz/1/"
    assert (first.is_folder, first != second) == (True, True)
    assert str(locate_output(first, "y", -1)) == f"{first}y"
    assert str(locate_output(first, "y", 3)) == f"{first}y-3"


@pytest.mark.parametrize("name", ["y", "output_0", "a.b-C"])
def test_a_safe_name_stays(name: str) -> None:
    assert make_safe(name) == name


def test_other_names_are_safe_and_stay_different() -> None:
    names = ["../../x", "a/b", "a_b", "a:b", "..", ".", "", "ä", "\ud800", "a\nb", "y" * 100, "y" * 101, "y" * 102]
    safe = [make_safe(name) for name in names]
    assert len(set(safe)) == len(names)
    for each in safe:
        assert each.isascii()
        assert each.strip(".")
        assert not {"/", ":", "\n"} & set(each)


def test_the_longest_key_fits() -> None:
    longest = parse_output_location("s3://bucket/" + "p" * (MAX_PREFIX - 1) + "/")
    folder = make_attempt_folder(longest, JOB, 2**63)
    assert len(locate_output(folder, "/" * 1000, 2**31).key) <= MAX_KEY
    with pytest.raises(InvalidLocation, match="700 bytes"):
        parse_output_location("s3://bucket/" + "ö" * 350 + "/")


@pytest.mark.parametrize("text", ["s3://bucket/out", "s3://bucket/a/../out/", "https://bucket/out/", "s3://bucket//"])
def test_only_a_folder_is_a_location(text: str) -> None:
    with pytest.raises(InvalidLocation):
        parse_output_location(text)
