"""Inputs whose content is elsewhere: in an uploaded file, or at a URL. In a program a plain `str` is always text."""

import re

_FILE_ID = re.compile(r"file_[0-9a-z]{26}")
_URL = re.compile(r"(https?|s3)://\S+")


class FileId(str):
    """The id of an uploaded file, `file_…`. As an input it stands for the content of the file."""

    __slots__ = ()


class Url(str):
    """A URL, `https://…` or `s3://…`. As an input it stands for what a dispatcher fetches there when the job runs."""

    __slots__ = ()


def find_reference(text: str) -> FileId | Url | None:
    """Return what a text refers to, if it is nothing but the id of a file or a URL."""
    if _FILE_ID.fullmatch(text):
        return FileId(text)
    return Url(text) if _URL.fullmatch(text) else None
