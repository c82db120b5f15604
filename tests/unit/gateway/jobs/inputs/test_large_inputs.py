"""Which inline inputs of a job go to the object store."""

import msgspec
import pytest

from common import ids, tensors
from common.jobs.new_job import NewJob
from common.tensors import Datatype, FileContent, Tensor
from services.gateway.jobs.inputs.large_inputs import move_large_inputs
from services.gateway.jobs.parse import build_job
from services.gateway.jobs.schemas import SubmitJob
from tests.unit.gateway.parsing import TRACEPARENT

LIMIT = 1000
REFERENCE = Tensor("file", Datatype.UINT8, [5000], FileContent(ids.new(), 0, 5000))


def make_inputs(*sizes: int) -> list[Tensor]:
    return [Tensor(f"x{index}", Datatype.UINT8, [size], bytes([index]) * size) for index, size in enumerate(sizes)]


def make_job(inputs: list[Tensor]) -> NewJob:
    return build_job(ids.new(), SubmitJob(model="echo", inputs={}), inputs, TRACEPARENT)


@pytest.mark.parametrize("sizes", [[], [0], [LIMIT], [LIMIT - 1, 1], [400, 300, 300]])
def test_inputs_within_the_limit_stay(sizes: list[int]) -> None:
    inputs = [*make_inputs(*sizes), REFERENCE]
    job = make_job(inputs)
    assert move_large_inputs(job, inputs, LIMIT) is job


@pytest.mark.parametrize(
    ("sizes", "moved"),
    [
        ([LIMIT + 1], [0]),
        ([1, LIMIT], [1]),
        ([600, 5000, 600], [1, 0]),
        ([300] * 4, [0]),
        ([LIMIT + 1] * 3, [0, 1, 2]),
    ],
)
def test_the_largest_move_until_the_others_fit(sizes: list[int], moved: list[int]) -> None:
    inputs = make_inputs(*sizes)
    job = make_job(inputs)
    changed = move_large_inputs(job, inputs, LIMIT)
    assert [large.data for large in changed.large_inputs] == [inputs[index].data for index in moved]
    found = tensors.unpack(changed.tensors)
    for index, large in zip(moved, changed.large_inputs, strict=True):
        assert found[index].data == FileContent(large.id, 0, sizes[index], inline=True)
        inputs[index] = found[index]
    assert found == inputs
    assert changed.file_bytes == sum(sizes[index] for index in moved)
    assert len(changed.tensors) < LIMIT + 100 * len(sizes)
    assert sum(sizes) < changed.input_bytes < sum(sizes) + 100 * len(sizes)
    assert changed.held_bytes == changed.input_bytes


def test_bytes_in_files_of_the_client_count_but_are_not_held() -> None:
    inputs = [*make_inputs(2000), REFERENCE]
    job = move_large_inputs(msgspec.structs.replace(make_job(inputs), file_bytes=5000), inputs, 0)
    assert (job.file_bytes, len(job.large_inputs)) == (7000, 1)
    assert job.input_bytes - job.held_bytes == 5000
