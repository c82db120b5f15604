"""Shows the inputs of jobs: reads them once the gateway has room, and renders them as JSON."""

from typing import Any, assert_never

import msgspec
from litestar import Request
from msgspec import UNSET

from common import ids, tensors
from common.locations.location import Location
from common.tensors import Datatype, FileContent, ObjectContent, Reference, Tensor, UrlContent
from common.views.hidden_query import hide_query
from common.views.outputs import LENGTH_BYTES, OutputTensor, render_output
from services.gateway.http.limits.response_limits import LARGE, find_response_lease
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.inputs.schemas import Input, InputsOmitted
from services.gateway.jobs.store import FoundInputs, JobStore

IN_PLACE = 32 * 1024  # stored bytes; the worst of them take 20 ms
GROWTH = 12  # bytes of JSON for a stored byte at most: BF16 has 2, and "1.1754943508222875e-38," 23


async def load_inputs(
    request: Request[Any, Any, Any], store: JobStore, workers: Workers, found: FoundInputs
) -> bytes | InputsOmitted:
    """Return the inputs as JSON, or why there are none. The response then holds their room.

    Raises Problem (503) without room, and Unavailable.
    """
    packed, lease = found.tensors, find_response_lease(request.scope)
    if GROWTH * found.size > LARGE:
        await lease.reserve(found.tenant_id, GROWTH * found.size)
    if packed is None:
        packed = await store.read_inputs(found.job_id)
    if not packed:
        return "erased"  # meanwhile, perhaps
    in_place = len(packed) <= IN_PLACE
    rendered = render_inputs(packed) if in_place else await workers.run(render_inputs, packed)
    if rendered is None:
        return "newer_format"
    lease.shrink(len(rendered))
    return rendered


def render_inputs(packed: bytes) -> bytes | None:
    """Return packed inputs as a JSON list, or None if they are of a later release. Pure: a worker process may do it."""
    try:
        inputs = tensors.unpack(packed)
    except msgspec.DecodeError:
        return None
    return b"[" + b",".join(map(render_input, inputs)) + b"]"


def render_input(tensor: Tensor) -> bytes:
    name, datatype, shape, content = tensor.name, tensor.datatype, tensor.shape, tensor.data
    if isinstance(content, bytes):
        return b"".join(render_output(OutputTensor(name, datatype, shape, content)))
    return msgspec.json.encode(describe_reference(Input(name, datatype, shape), content))


def describe_reference(shown: Input, content: Reference) -> Input:
    """Return the input with where its elements are. Whoever shows a file adds the `download_url`."""
    match content:
        case FileContent():
            skipped = LENGTH_BYTES if content.inline and is_element(shown) else 0
            return msgspec.structs.replace(
                shown,
                file=ids.encode(ids.Kind.FILE, content.file_id),
                offset=content.offset + skipped or UNSET,
                size=content.size - skipped,
            )
        case UrlContent():
            return msgspec.structs.replace(shown, url=hide_query(content.url))
        case ObjectContent():
            url = str(Location(content.bucket, content.key))
            return msgspec.structs.replace(shown, url=url, offset=content.offset or UNSET, size=content.size)
        case never:
            assert_never(never)


def is_element(shown: Input) -> bool:
    """Return whether the input is one element of BYTES."""
    return shown.datatype is Datatype.BYTES and all(size == 1 for size in shown.shape)
