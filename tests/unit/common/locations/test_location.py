"""Names of objects in buckets."""

import pytest

from common.locations.location import InvalidLocation, Location, is_all_within, is_within, parse_object, parse_prefix


@pytest.mark.parametrize("text", ["s3://bucket/key", "s3://my.bucket-1/a b/größe=1/part,2+3.npy"])
def test_an_object_keeps_its_name(text: str) -> None:
    assert str(parse_object(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://bucket/key", "must begin with s3://"),
        ("s3://Bucket/key", "the name of the bucket"),
        ("s3:///key", "the name of the bucket"),
        ("s3://a/key", "the name of the bucket"),
        ("s3://me:secret@bucket/key", "the name of the bucket"),
        ("s3://bucket", "needs the key"),
        ("s3://bucket/folder/", "needs the key"),
        ("s3://bucket//key", "empty parts"),
        ("s3://bucket/a/../key", "`..`"),
        ("s3://bucket/./key", "`.`"),
        ("s3://bucket/a\nb", "control characters"),
        ("s3://bucket/" + "ö" * 513, "1024 bytes"),
        ("s3://bucket/\ud800", "control characters"),
    ],
)
def test_an_invalid_object_is_explained(text: str, reason: str) -> None:
    with pytest.raises(InvalidLocation, match=reason.replace(".", r"\.")):
        parse_object(text)


def test_a_prefix_ends_where_a_folder_ends() -> None:
    assert [parse_prefix(text) for text in ("s3://bucket", "s3://bucket/", "s3://bucket/a/b/")] == [
        Location("bucket", ""),
        Location("bucket", ""),
        Location("bucket", "a/b/"),
    ]
    with pytest.raises(InvalidLocation, match="must end with /"):
        parse_prefix("s3://bucket/a")


@pytest.mark.parametrize(
    ("location", "store", "within", "all_within"),
    [
        (Location("bucket", "own/x"), "s3://bucket/own", True, True),
        (Location("bucket", "own/x"), "s3://bucket/own/", True, True),
        (Location("bucket", "own2/x"), "s3://bucket/own", False, False),
        (Location("bucket", "o"), "s3://bucket/own", False, False),
        (Location("bucket", ""), "s3://bucket/own", True, False),
        (Location("bucket", "a/"), "s3://bucket/a/b", True, False),
        (Location("bucket", "x"), "s3://bucket", True, True),
        (Location("bucket", ""), "s3://bucket/", True, True),
        (Location("other", "own/x"), "s3://bucket/own", False, False),
        (Location("bucket", "x"), "file:///bucket", False, False),
        (Location("bucket", "own folder/x"), "s3://bucket/own%20folder", True, True),
    ],
)
def test_the_own_store_is_recognized(location: Location, store: str, within: bool, all_within: bool) -> None:
    assert (is_within(location, store), is_all_within(location, store)) == (within, all_within)
