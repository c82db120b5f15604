"""Names of objects in buckets, such as `s3://bucket/folder/key`. Pure."""

import re
from urllib.parse import unquote, urlsplit

import msgspec

from common.errors import CharoniaError

SCHEME = "s3://"
MAX_KEY = 1024  # bytes, as S3 has it
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class InvalidLocation(CharoniaError):
    """This is no object of a bucket."""


class Location(msgspec.Struct, frozen=True, array_like=True):
    """An object of a bucket, or all objects whose keys begin with `key`."""

    bucket: str
    key: str

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, or a whole bucket, and no object."""
        return not self.key or self.key.endswith("/")

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"


def parse_object(text: str) -> Location:
    """Return the location of an object. Raise InvalidLocation."""
    found = _split(text)
    if found.is_folder:
        raise InvalidLocation("it needs the key of an object, like s3://bucket/folder/key")
    return found


def parse_prefix(text: str) -> Location:
    """Return the location of all objects below a folder, or of a whole bucket. Raise InvalidLocation."""
    found = _split(text)
    if not found.is_folder:
        raise InvalidLocation(
            "it must end with /, like s3://bucket/folder/; else it would hold for s3://bucket/folder2"
        )
    return found


def is_within(location: Location, store_url: str) -> bool:
    """Return whether a location is, or has, a part of the store of this URL."""
    own = _locate_store(store_url)
    if own is None or own.bucket != location.bucket:
        return False
    return location.key.startswith(own.key) or (location.is_folder and own.key.startswith(location.key))


def is_all_within(location: Location, store_url: str) -> bool:
    """Return whether all of a location is in the store of this URL."""
    own = _locate_store(store_url)
    return own is not None and own.bucket == location.bucket and location.key.startswith(own.key)


def _locate_store(url: str) -> Location | None:
    parts = urlsplit(url)
    prefix = unquote(parts.path).strip("/")
    return Location(parts.netloc, f"{prefix}/" if prefix else "") if parts.scheme == "s3" else None


def _split(text: str) -> Location:
    if not text.startswith(SCHEME):
        raise InvalidLocation(f"it must begin with {SCHEME}, like s3://bucket/folder/key")
    bucket, _, key = text.removeprefix(SCHEME).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidLocation("the name of the bucket must have 3 to 63 of a-z, 0-9, and . - inside")
    if len(key.encode(errors="replace")) > MAX_KEY or _CONTROL.search(key) or not key.isprintable():
        raise InvalidLocation(f"the key may have {MAX_KEY} bytes, and no control characters")
    if key and any(part in ("", ".", "..") for part in key.removesuffix("/").split("/")):
        raise InvalidLocation("the key may not have empty parts, and no `.` or `..` as a part")
    return Location(bucket, key)
