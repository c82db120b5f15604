"""Whether a model accepts inputs that were packed for another model."""

from uuid import UUID

import pytest

from common.postgres.batcher import MAX_BATCH_BYTES
from common.tensors import Datatype, FileContent, Signature, Tensor
from services.gateway.jobs.actions.retry import accepts, chunk_jobs
from services.gateway.jobs.actions.store import RetryableJob

X = Tensor("x", Datatype.FP32, [2, 3], bytes(24))
DECLARED = Signature("x", Datatype.FP32, [-1, 3])
FILE = UUID(int=7)
HINT = Signature("hint", Datatype.INT32, [1], optional=True)


def test_a_model_with_the_same_inputs_accepts_them() -> None:
    assert accepts([DECLARED], 0, [X])
    assert accepts([DECLARED, HINT], 0, [X])


@pytest.mark.parametrize(
    ("given", "declared", "max_batch_size"),
    [
        ([X], [Signature("z", Datatype.FP32, [-1, 3])], 0),
        ([X], [DECLARED, Signature("z", Datatype.FP32, [1])], 0),
        ([X, Tensor("z", Datatype.FP32, [1], bytes(4))], [DECLARED], 0),
        ([X], [Signature("x", Datatype.INT32, [-1, 3])], 0),
        ([X], [Signature("x", Datatype.FP32, [-1, 4])], 0),
        ([X], [Signature("x", Datatype.FP32, [-1])], 0),
        ([X], [DECLARED], 1),
    ],
    ids=["name", "one missing", "one too many", "datatype", "size", "dimensions", "batch"],
)
def test_a_model_with_other_inputs_does_not(
    given: list[Tensor], declared: list[Signature], max_batch_size: int
) -> None:
    assert not accepts(declared, max_batch_size, given)


@pytest.mark.parametrize(
    ("data", "reference", "accepted"),
    [
        (b"\x00\x00\x00\x00", True, False),
        (FileContent(FILE, 0, 5), True, True),
        (FileContent(FILE, 0, 5, by_reference=True), True, True),
        (FileContent(FILE, 0, 5, by_reference=True), False, False),
        (FileContent(FILE, 0, 5, inline=True), True, False),
        (FileContent(FILE, 0, 5, inline=True), False, True),
        (FileContent(FILE, 0, 5), False, True),
    ],
)
def test_a_reference_is_a_file_of_any_size(data: bytes | FileContent, reference: bool, accepted: bool) -> None:
    signature = Signature("x", Datatype.BYTES, [1], reference=reference)
    assert accepts([signature], 0, [Tensor("x", Datatype.BYTES, [1], data)]) is accepted


def test_inputs_are_read_in_chunks_that_fit_into_memory() -> None:
    sizes = [MAX_BATCH_BYTES // 2, MAX_BATCH_BYTES // 2, 1, 3 * MAX_BATCH_BYTES, 0, 1]
    jobs = [RetryableJob(UUID(int=number), size) for number, size in enumerate(sizes)]
    assert [[job.int for job in chunk] for chunk in chunk_jobs(jobs)] == [[0, 1], [2], [3], [4, 5]]
    assert list(chunk_jobs([])) == []
