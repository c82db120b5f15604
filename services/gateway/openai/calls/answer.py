"""Awaits the job of a request, and returns what its model has written."""

from common import ids
from common.jobs.job import Job
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.problems import Problem
from services.gateway.jobs.idempotency.keys import IDEMPOTENCY_KEY
from services.gateway.jobs.outputs import load_outputs
from services.gateway.jobs.store import FoundJob
from services.gateway.open_inference.inference import Inference
from services.gateway.openai.calls.failures import refine
from services.gateway.openai.calls.outputs import OutputReader
from services.gateway.openai.calls.submission import JOB_HEADER, Call, Caller
from services.gateway.openai.calls.translation import Shown
from services.gateway.openai.kinds.pieces import Outputs, Transcript, UnreadableOutput, read_piece
from services.gateway.openai.problems import NO_RETRY, erased, unreadable

STILL_RUNNING = ("infer_timeout", "unavailable")  # codes of a wait that ends before its job


class Answers:
    """Waits for jobs, and reads their outputs."""

    def __init__(self, inference: Inference, reader: OutputReader) -> None:
        self.inference = inference
        self.reader = reader

    async def read(self, request: Caller, found: FoundJob) -> list[Outputs]:
        """Return the outputs of a job that has succeeded, of each response. Raises Problem (410, 500, 503)."""
        if found.erased:
            raise erased(ids.encode(ids.Kind.JOB, found.row.id))
        found = await load_outputs(request, self.inference.store, found)
        lease = find_response_lease(request.scope)
        return await self.reader.read(found.row.tenant_id, found.outputs or b"[]", lease)

    async def wait(self, request: Caller, call: Call) -> list[Outputs]:
        """Return the outputs of a request's job once it has succeeded. Raises as `finish` does."""
        _, outputs = await self.finish(request, call)
        return outputs

    async def finish(self, request: Caller, call: Call) -> tuple[Job, list[Outputs]]:
        """Return a request's job and its outputs once it has succeeded.

        A job without an idempotency key is canceled when its client leaves, or when nobody may wait any longer: nobody
        can come back for the answer. Raises Problem for every other end of the job or of the wait.
        """
        try:
            found = await self.inference.await_result(call.row, request.user, request.receive, cancels=not call.is_kept)
            return found.row, await self.read(request, found)
        except Problem as problem:
            if problem.code in STILL_RUNNING and not call.is_kept:
                await self.inference.cancel(call.row)
            raise explain(problem, call) from problem


def explain(problem: Problem, call: Call) -> Problem:
    """Return the problem with the headers of the call, and with what became of a job that nobody waits for any more."""
    problem = refine(problem, call.endpoint)
    detail, headers = problem.detail, problem.headers | call.headers
    if problem.code == "conflict" and call.is_kept:  # for as long as the key is known
        detail = f"{detail}; to ask again, send the request with a new {IDEMPOTENCY_KEY}"
    if problem.code == "infer_timeout" and not call.is_kept:
        job = call.headers[JOB_HEADER]
        detail = (
            f"{job} did not end in time and is canceled; send an {IDEMPOTENCY_KEY} and repeat the request to wait on"
        )
    if problem.code not in STILL_RUNNING or (problem.code == "infer_timeout" and not call.is_kept):
        headers |= NO_RETRY  # another request would be another job, and this one had its retries
    return Problem(problem.status, problem.code, detail, errors=problem.errors, headers=headers)


def join(row: Job, responses: list[Outputs], shown: Shown) -> tuple[str, Transcript]:
    """Return the whole text of a job's responses. Raises Problem (500) for outputs of another form."""
    transcript, parts = Transcript(shown.stop, shown.max_tokens), []
    try:
        parts = [transcript.add(read_piece(each)) for each in responses]
    except UnreadableOutput as error:
        raise unreadable(error) from error
    return "".join([*parts, transcript.end(row.finish_reason)]), transcript
