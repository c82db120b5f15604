"""Gives jobs their keys. Pure, so that a worker process can do it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

import msgspec

from common.jobs.new_job import NewJob
from common.reuse.choice import choose_max_age
from common.reuse.digest import Question, make_key
from common.tensors import Tensor
from services.gateway.jobs.inputs.references import KnownFile
from services.gateway.jobs.schemas import SubmitJob
from services.gateway.models.store import ModelVersion


def add_reuse_key(
    job: NewJob, request: SubmitJob, model: ModelVersion, inputs: Sequence[Tensor], files: Mapping[UUID, KnownFile]
) -> NewJob:
    """Return the job with its key, if its client and its model allow reuse, and if that can be right.

    It cannot be for outputs that go elsewhere, for a job of later, for inputs that nobody hashed, and while it is not
    known which load of the model answers.
    """
    max_age = choose_max_age(request.reuse, model.settings)
    if max_age is None or not model.loads or request.output is not None:
        return job
    if request.run_at is not None and request.run_at > datetime.now(UTC):
        return job
    question = Question(job.tenant_id, job.model, job.version, job.fallback_model, False, request.parameters)
    hashed = {each: file.sha256 for each, file in files.items() if file.sha256 is not None}
    key = make_key(question, inputs, hashed)
    return job if key is None else msgspec.structs.replace(job, reuse_key=key, reuse_seconds=max_age)
