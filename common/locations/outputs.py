"""Where the outputs of jobs go that name a location. Pure."""

import re
from hashlib import sha256
from uuid import UUID

from common import ids
from common.locations.location import InvalidLocation, Location, parse_prefix

MAX_PREFIX = 700  # bytes of the key; what Charonia adds has fewer than 300
MAX_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def parse_output_location(text: str) -> Location:
    """Return the location that a client wants outputs at. Raise InvalidLocation."""
    found = parse_prefix(text)
    if len(found.key.encode()) > MAX_PREFIX:
        raise InvalidLocation(f"the key may have {MAX_PREFIX} bytes, because the names of the outputs follow it")
    return found


def make_attempt_folder(location: Location, job_id: UUID, claim: int) -> Location:
    """Return the folder of one attempt. No two attempts share one, so a late attempt replaces nothing."""
    return Location(location.bucket, f"{location.key}{ids.encode(ids.Kind.JOB, job_id)}/{claim}/")


def locate_output(folder: Location, name: str, response: int) -> Location:
    """Return the object of an output. `response` is its number if the model streams, else -1."""
    number = "" if response < 0 else f"-{response}"
    return Location(folder.bucket, f"{folder.key}{make_safe(name)}{number}")


def make_safe(name: str) -> str:
    """Return a name for a key. Names that were made safe have a digest, so that they stay different."""
    safe = _UNSAFE.sub("_", name)[:MAX_NAME]
    if safe == name and safe.strip("."):
        return name
    return f"{safe.strip('.')}-{sha256(name.encode(errors='replace')).hexdigest()[:16]}"
