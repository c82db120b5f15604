"""Files as OpenAI's API has them."""

from typing import Literal

import msgspec


class OpenAIFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file. Its times are in unix seconds."""

    id: str
    """The id of the file, also in `/v1/files` if it was uploaded."""
    object: Literal["file"] = "file"
    """Always `file`."""
    bytes: int
    """The bytes of the file. 0 for a file of a batch: it is written while it is read."""
    created_at: int
    """When it was uploaded, or when its batch was created."""
    expires_at: int | None
    """When it is deleted; null for a file of a batch, which goes with the jobs."""
    filename: str
    """The name that it was uploaded with."""
    purpose: str
    """`batch` or `user_data`, which also a file from `/v1/files` has; `batch_output` for a file of a batch."""
    status: str = "processed"
    """Always `processed`."""
    status_details: None = None
    """Always null."""


class OpenAIFileList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of files."""

    object: Literal["list"] = "list"
    """Always `list`."""
    data: list[OpenAIFile]
    """The files."""
    first_id: str | None
    """The id of the first one; null on an empty page."""
    last_id: str | None
    """The id of the last one: pass it as `after` to get the next page."""
    has_more: bool
    """Whether there is a next page."""


class DeletedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was deleted."""

    id: str
    """The id that it had."""
    object: Literal["file"] = "file"
    """Always `file`."""
    deleted: bool = True
    """Always true."""
