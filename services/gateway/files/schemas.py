"""Response bodies of files."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.views.job import Time

BINARY = "application/octet-stream"
MEDIA_TYPE = r"[A-Za-z0-9!#$&^_.+-]{1,100}/[A-Za-z0-9!#$&^_.+-]{1,100}([ \t]*;[\x20-\x7e]{0,100})?"
ContentType = Annotated[str, Meta(extra_json_schema={"pattern": f"^{MEDIA_TYPE}$"})]


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    """A file."""

    id: str
    """The id of the file."""
    size: int
    """The bytes of the file."""
    sha256: str | None
    """The SHA-256 of the file in hexadecimal. Of a presigned upload: as its client said, or null."""
    content_type: str
    """The Content-Type that the upload had."""
    created_at: Time
    """When the file was uploaded."""
    expires_at: Time | None
    """When the file is deleted; null for an output of a job, which is deleted with the job."""


class PresignUpload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that the client uploads to the object store itself."""

    size: Annotated[int, Meta(ge=0)]
    """The bytes of the file. An upload with another size is no file."""
    sha256: Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$")] | None = None
    """The SHA-256 of the file in hexadecimal. It is shown in the file, and not checked."""
    content_type: ContentType = BINARY
    """The media type of the file."""
    expires_in: Annotated[float, Meta(gt=0)] | None = None
    """How many seconds after its upload the file is deleted. By default after a day."""


class PresignedUpload(msgspec.Struct, frozen=True, kw_only=True):
    """The request that uploads a file."""

    method: Literal["PUT"]
    """The method of the request."""
    url: str
    """Where to send it. Whoever has the URL can upload, so keep it secret."""
    headers: dict[str, str]
    """The headers to send with it."""
    expires_at: Time
    """Until when the request may begin."""


class PresignedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not uploaded yet."""

    id: str
    """The id of the file, once it is uploaded."""
    upload: PresignedUpload
    """How to upload it."""


class FilePage(msgspec.Struct, frozen=True):
    """A page of files."""

    items: list[FileView]
    """The files, newest first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""
