"""Whether a model accepts inputs that were packed for another model."""

from uuid import UUID

import pytest

from common import tensors
from common.job_states import Status
from common.postgres.batcher import MAX_BATCH_BYTES
from common.tensors import Datatype, FileContent, Signature, Tensor
from services.gateway.jobs.actions.retry import chunk_jobs, explain_refusal, explain_skip, find_mismatch
from services.gateway.jobs.actions.store import JobState, RetryableJob
from services.gateway.jobs.runs.retry import Refusal
from services.gateway.models.store import ModelVersion
from tests.support.database.later_release import NEWER_INPUTS

X = Tensor("x", Datatype.FP32, [2, 3], bytes(24))
DECLARED = Signature("x", Datatype.FP32, [-1, 3])
FILE = UUID(int=7)
HINT = Signature("hint", Datatype.INT32, [1], optional=True)


def test_a_model_with_the_same_inputs_accepts_them() -> None:
    assert find_mismatch([DECLARED], 0, [X]) is None
    assert find_mismatch([DECLARED, HINT], 0, [X]) is None


@pytest.mark.parametrize(
    ("given", "declared", "max_batch_size", "reason"),
    [
        ([X], [Signature("z", Datatype.FP32, [-1, 3])], 0, "it has no input 'x'; it has 'z' (FP32 [-1, 3])"),
        ([X], [DECLARED, Signature("z", Datatype.FP32, [1])], 0, "input 'z' (FP32 [1]) is missing"),
        ([X, Tensor("z", Datatype.FP32, [1], bytes(4))], [DECLARED], 0, "it has no input 'z'"),
        ([X], [Signature("x", Datatype.INT32, [-1, 3])], 0, "input 'x': expected INT32, got FP32"),
        ([X], [Signature("x", Datatype.FP32, [-1, 4])], 0, "input 'x': expected shape [-1, 4]"),
        ([X], [Signature("x", Datatype.FP32, [-1])], 0, "input 'x': expected shape [-1]"),
        ([X], [DECLARED], 1, "the batch has 2 items; the model accepts 1 to 1"),
    ],
    ids=["name", "one missing", "one too many", "datatype", "size", "dimensions", "batch"],
)
def test_a_model_with_other_inputs_refuses_them_and_names_the_first_that_does_not_fit(
    given: list[Tensor], declared: list[Signature], max_batch_size: int, reason: str
) -> None:
    assert (find_mismatch(declared, max_batch_size, given) or "").startswith(reason)


@pytest.mark.parametrize("packed", NEWER_INPUTS)
def test_inputs_of_a_later_release_cannot_be_checked(packed: bytes) -> None:
    target = ModelVersion("echo", "1", True, False, 0, [DECLARED], [])
    assert "a later release stored the job's inputs" in (explain_refusal(target, packed) or "")
    assert explain_refusal(target, tensors.pack([X])) is None


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
    assert (find_mismatch([signature], 0, [Tensor("x", Datatype.BYTES, [1], data)]) is None) is accepted


@pytest.mark.parametrize(
    ("state", "refusal", "code", "detail"),
    [
        (None, None, "not_found", "your tenant has no such job"),
        (JobState(Status.SUCCEEDED, erased=False), None, "not_failed", "the job is succeeded"),
        (JobState(Status.FAILED, erased=True), None, "erased", "it has no inputs"),
        (JobState(Status.FAILED, erased=False), Refusal("inputs_refused", "no 'z'"), "inputs_refused", "no 'z'"),
    ],
)
def test_a_job_that_is_not_replayed_has_a_reason(
    state: JobState | None, refusal: Refusal | None, code: str, detail: str
) -> None:
    found = explain_skip(FILE, state, refusal)
    assert (found.code, detail in found.detail) == (code, True)


def test_inputs_are_read_in_chunks_that_fit_into_memory() -> None:
    sizes = [MAX_BATCH_BYTES // 2, MAX_BATCH_BYTES // 2, 1, 3 * MAX_BATCH_BYTES, 0, 1]
    jobs = [RetryableJob(UUID(int=number), size) for number, size in enumerate(sizes)]
    assert [[job.int for job in chunk] for chunk in chunk_jobs(jobs)] == [[0, 1], [2], [3], [4, 5]]
    assert list(chunk_jobs([])) == []
