"""Parses an infer request into a job. Pure, so that a worker process can do it."""

from collections.abc import Sequence
from typing import NamedTuple

from common.jobs.new_job import NewJob
from common.tensors import Signature
from services.gateway.jobs.parse import SubmitContext, build_valid_job
from services.gateway.open_inference.requests import ResponseFormat, parse_request


class InferCall(NamedTuple):
    """The parts of an infer call besides its body, and the outputs of the model.

    `length` is the header with the size of the JSON.
    """

    model: str
    version: str | None
    length: str | None
    outputs: Sequence[Signature]


def parse_infer(body: bytes, call: InferCall, context: SubmitContext) -> tuple[NewJob, ResponseFormat]:
    """Return the valid job and the requested response format. Raises Problem (400, 404, 422)."""
    request, requested = parse_request(body, call.length, call.model, call.version, call.outputs)
    return build_valid_job(request, context), requested
