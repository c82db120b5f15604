"""Writes the lines of the two files that a batch has. Pure."""

from http import HTTPStatus
from uuid import UUID

import msgspec

from common import ids
from common.job_states import TERMINAL, Status
from common.jobs.job import Job
from services.gateway.http.problems import LATER, Problem
from services.gateway.open_inference.inference import explain_failure
from services.gateway.openai.batches.checks import CANCELED, EXPIRED, REASONS, LineProblem
from services.gateway.openai.batches.endpoints import CALLS
from services.gateway.openai.batches.schemas import LineError, LineResponse, OutputLine
from services.gateway.openai.batches.store import LineRow
from services.gateway.openai.calls.failures import refine
from services.gateway.openai.calls.record import read_record
from services.gateway.openai.ids import Prefix, encode
from services.gateway.openai.kinds.pieces import Outputs
from services.gateway.openai.problems import shape_error

LETTERS = 26  # of an id
ERASED = "the job was erased; its status and times remain"
OF_STATUS = {Status.CANCELED: CANCELED, Status.EXPIRED: EXPIRED}


def write_body(endpoint: str, row: Job, request: bytes, responses: list[Outputs]) -> bytes:
    """Return the body of the answer of a job that has succeeded. Raises Problem (500)."""
    call = CALLS.get(endpoint)
    if call is None:
        text = f"a gateway of a later release reads the answers of {endpoint}; try again after the upgrade"
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
    return call.write(row, call.reshow(bytes(read_record(request).body)), responses)


def write_output(batch_id: UUID, row: LineRow, job: Job, body: bytes) -> bytes:
    """Return the line of a job that has succeeded."""
    response = LineResponse(HTTPStatus.OK, ids.encode(ids.Kind.JOB, job.id), msgspec.Raw(body))
    return write_line(batch_id, row, response)


def write_failed(batch_id: UUID, row: LineRow, problem: Problem) -> bytes:
    """Return the line of a call that got this problem as its answer."""
    status, body = shape_error(problem)
    request_id = "" if row.job is None else ids.encode(ids.Kind.JOB, row.job.id)
    return write_line(batch_id, row, LineResponse(status, request_id, msgspec.Raw(msgspec.json.encode(body))))


def write_error(batch_id: UUID, row: LineRow, endpoint: str) -> bytes | None:
    """Return the line of an item that did not succeed, or None if it has none, or not yet."""
    if row.problem is not None:
        return write_refused(batch_id, row, msgspec.json.decode(row.problem, type=LineProblem))
    if row.job is None or row.job.status not in TERMINAL or row.job.status is Status.SUCCEEDED:
        return None
    if (code := OF_STATUS.get(row.job.status)) is not None:
        return write_line(batch_id, row, None, LineError(code, REASONS[code]))
    problem = explain_failure(row.job, ids.encode(ids.Kind.JOB, row.job.id))
    return write_failed(batch_id, row, refine(problem, endpoint))


def write_refused(batch_id: UUID, row: LineRow, problem: LineProblem) -> bytes:
    """Return the line of an item that became no job."""
    code = problem.type.rpartition(":")[2]
    if not problem.status:
        return write_line(batch_id, row, None, LineError(code, problem.detail))
    return write_failed(batch_id, row, Problem(HTTPStatus(problem.status), code, problem.detail, errors=problem.errors))


def write_erased(batch_id: UUID, row: LineRow) -> bytes:
    """Return the line of a job that has succeeded, and was erased."""
    return write_line(batch_id, row, None, LineError("erased", ERASED))


def write_line(batch_id: UUID, row: LineRow, response: LineResponse | None, error: LineError | None = None) -> bytes:
    letters = encode(Prefix.BATCH, batch_id)[-LETTERS:]
    return msgspec.json.encode(OutputLine(f"batch_req_{letters}_{row.number}", row.custom_id, response, error))
