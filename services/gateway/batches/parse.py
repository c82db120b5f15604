"""Decodes and validates the items of a batch. Pure, so that a worker process can do it."""

from codecs import BOM_UTF8
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from common.jobs.new_job import NewJob
from services.gateway.batches.items import find_second
from services.gateway.batches.schemas import BatchJob, CustomId, DefaultsLine
from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.jobs.parse import SubmitContext, build_valid_job

ITEM = "the item"
MAX_DEFAULTS = 64 * 1024  # bytes; each job gets a copy


class ParsedItem(NamedTuple):
    job: NewJob
    custom_id: str | None


class FirstLine(msgspec.Struct, frozen=True):
    """Any line. Only one with defaults has this field."""

    defaults: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class NamedItem(msgspec.Struct, frozen=True):
    """Any item, valid or not, with a valid name."""

    custom_id: CustomId | None = None


def parse_item(item: bytes | str, defaults: bytes | None, context: SubmitContext) -> ParsedItem:
    """Return the valid job of an item, and its name. Raises Problem (400, 403, 404, 422)."""
    try:
        request = decode_item(item, defaults)
    except Problem as problem:
        raise explain_joined(item) or problem from problem
    return ParsedItem(build_valid_job(request, context), request.custom_id)


def explain_joined(item: bytes | str) -> Problem | None:
    """Return the problem of a line with two jobs: `curl -d @FILE` drops the line breaks of a file."""
    try:
        text = item.decode("utf-8-sig") if isinstance(item, bytes) else item
        second = find_second(text, 0)
    except (ValueError, RecursionError):
        return None
    if second is None:
        return None
    detail = f"a second job begins in column {second + 1}, but each needs a line of its own"
    hint = "curl drops the line breaks of `-d @FILE`; use `--data-binary @FILE`"
    return Problem(HTTPStatus.BAD_REQUEST, "malformed_json", f"{detail}; {hint}")


def decode_item(item: bytes | str, defaults: bytes | None) -> BatchJob:
    """Return an item with its defaults. Raises Problem (400, 422) that points into the item as it was sent."""
    if defaults is None:
        job: BatchJob = decode_body(item, BatchJob, ITEM)
        return job
    merged = add_defaults(item, defaults)
    try:
        job = decode_body(merged, BatchJob, ITEM)
    except Problem as problem:
        if problem.status is HTTPStatus.BAD_REQUEST:
            decode_body(item, Any, ITEM)  # finds the same mistake at its place in the item
        raise
    return job


def add_defaults(item: bytes | str, defaults: bytes) -> bytes:
    """Return the item with the fields that only the defaults have."""
    given = decode_body(item, dict[str, msgspec.Raw], ITEM)
    return msgspec.json.encode(msgspec.json.decode(defaults, type=dict[str, msgspec.Raw]) | given)


def parse_defaults(first: bytes | str) -> bytes | None:
    """Return the defaults in the first line of a batch, or None if it is a job. Raises Problem (422)."""
    try:
        found = msgspec.json.decode(remove_mark(first), type=FirstLine).defaults
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # reported as that of any other item
    if isinstance(found, msgspec.UnsetType):
        return None
    decode_body(first, DefaultsLine)
    defaults = bytes(found)
    if len(defaults) > MAX_DEFAULTS:
        raise invalid(FieldError("/defaults", f"has {len(defaults)} bytes; it may have {MAX_DEFAULTS}"))
    return defaults


def read_custom_id(item: bytes | str) -> str | None:
    """Return the name of an item that was refused, if it has a valid one."""
    try:
        return msgspec.json.decode(remove_mark(item), type=NamedItem).custom_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def remove_mark(text: bytes | str) -> bytes | str:
    """Return JSON without a byte order mark."""
    return text.removeprefix(BOM_UTF8) if isinstance(text, bytes) else text
