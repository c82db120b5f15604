"""Downloads the outputs of jobs that are in files."""

import functools
import hashlib
import io
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import msgspec

from charonia._async.blocking import run_blocking
from charonia._async.files import AsyncFiles
from charonia.calls import Deadline, extend
from charonia.errors import CharoniaError, InvalidResponse, known_outputs
from charonia.schemas import Output

MAX_DOWNLOAD = 1024 * 1024 * 1024  # bytes of the outputs of one result


def is_too_large(outputs: Sequence[Output]) -> bool:
    """Return whether outputs have more in files than a result may hold."""
    return measure(outputs) > MAX_DOWNLOAD


def measure(outputs: Sequence[Output]) -> int:
    """Return the bytes of outputs that are in files."""
    return sum(each.size or 0 for each in outputs if each.file)


async def download_outputs(
    files: AsyncFiles, outputs: Sequence[Output], job_id: str, deadline: Deadline
) -> list[Output]:
    """Return outputs with the contents of those that are in files.

    Raise CharoniaError if they are too large, and DeadlineExceeded little after the deadline.
    """
    with known_outputs(job_id):
        if is_too_large(outputs):
            raise CharoniaError(
                f"the outputs of {job_id} have {measure(outputs)} bytes in files, and a result holds {MAX_DOWNLOAD}; "
                f"read each with client.jobs.get({job_id!r}).save_output(NAME, PATH)"
            )
        until = extend(deadline)
        return [msgspec.structs.replace(each, content=await _download(files, each, until)) for each in outputs]


async def _download(files: AsyncFiles, output: Output, deadline: Deadline) -> bytes | None:
    """Return the content of the file of an output. Its URL is signed, because a key may submit, but not read."""
    if output.file is None:
        return None
    query = dict(parse_qsl(urlsplit(output.download_url or "").query))
    buffer = io.BytesIO()
    async for piece in files._read_content(output.file, output.size or 0, query, deadline):
        buffer.write(piece)
    content = buffer.getvalue()
    digest = await run_blocking(functools.partial(hashlib.sha256, content))
    if output.sha256 not in (None, digest.hexdigest()):
        raise InvalidResponse(f"the content of {output.file} has another SHA-256 than the output; read it again")
    return content
