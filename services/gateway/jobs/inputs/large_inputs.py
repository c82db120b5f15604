"""Chooses which inline inputs of a job go to the object store. Pure."""

from collections.abc import Sequence

import msgspec

from common import ids, tensors
from common.jobs.new_job import LargeInput, NewJob
from common.tensors import FileContent, Tensor


def move_large_inputs(job: NewJob, inputs: Sequence[Tensor], limit: int) -> NewJob:
    """Return the job with its largest inline inputs as files, so that the others have `limit` bytes at most."""
    sizes = {index: len(tensor.data) for index, tensor in enumerate(inputs) if isinstance(tensor.data, bytes)}
    excess = sum(sizes.values()) - limit
    if excess <= 0:
        return job
    kept, moved = list(inputs), []
    for index in sorted(sizes, key=sizes.__getitem__, reverse=True):
        tensor, size = kept[index], sizes[index]
        if excess <= 0 or not isinstance(tensor.data, bytes):
            break
        file_id = ids.new()
        moved.append(LargeInput(file_id, tensor.data))
        content = FileContent(file_id, 0, size, inline=True)
        kept[index] = Tensor(tensor.name, tensor.datatype, tensor.shape, content)
        excess -= size
    file_bytes = job.file_bytes + sum(len(large.data) for large in moved)
    return msgspec.structs.replace(job, tensors=tensors.pack(kept), large_inputs=moved, file_bytes=file_bytes)
