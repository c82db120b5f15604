"""What a batch remembers of its call and of its file: the JSON in `batches.request`. Pure."""

from collections.abc import Sequence

import msgspec


class BatchError(msgspec.Struct, frozen=True):
    """Why a batch failed as a whole."""

    code: str
    """A stable error code, such as `invalid_json_line`."""
    message: str
    """What is wrong and what to do, for people. It may change."""
    line: int | None = None
    """The line of the file, from 1; null if none is to blame."""
    param: str | None = None
    """Always null."""


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The call that made a batch, and what its file was found to be. A later release may know other endpoints.

    `models` are patterns of the models that the caller's key may run, or None for all. `duplicates` has a bit for each
    line whose `custom_id` an earlier line has. `has_expired`: some lines were left when the time was over.
    """

    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    models: tuple[str, ...] | None = None
    file_size: int
    duplicates: bytes = b""
    errors: Sequence[BatchError] = ()
    has_expired: bool = False


def write_record(record: BatchRecord) -> bytes:
    return msgspec.json.encode(record)


def read_record(stored: bytes) -> BatchRecord:
    return msgspec.json.decode(stored, type=BatchRecord)


def has_bit(bits: bytes, index: int) -> bool:
    """Return whether a bit is set; bits beyond the end are not."""
    return index // 8 < len(bits) and bool(bits[index // 8] >> index % 8 & 1)


def set_bit(bits: bytearray, index: int) -> None:
    """Set a bit, and make room for it."""
    if (missing := index // 8 + 1 - len(bits)) > 0:
        bits.extend(bytes(missing))
    bits[index // 8] |= 1 << index % 8
