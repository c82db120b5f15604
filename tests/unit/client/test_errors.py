"""Errors keep what they say on their way between processes."""

import copy
import pickle
from datetime import datetime, timezone

import httpx
import msgspec
import pytest
from charonia import Charonia, errors
from charonia.errors import KnownJob
from charonia.schemas import Failure, FieldProblem, JobData, Metrics

JOB = JobData(
    id="job_1",
    status="failed",
    model="m",
    version=None,
    priority="normal",
    attempt=2,
    max_attempts=3,
    created_at=datetime(2026, 11, 22, tzinfo=timezone.utc),  # noqa: UP017
    run_at=datetime(2026, 11, 22, tzinfo=timezone.utc),  # noqa: UP017
    started_at=None,
    finished_at=None,
    expires_at=None,
    outputs=None,
    error=Failure("model_error", "it broke"),
    queue_position=None,
    webhook_status="none",
    metadata={},
    trace_id="0" * 32,
    metrics=Metrics(),
)
SIMPLE: tuple[type[errors.CharoniaError], ...] = (
    errors.CharoniaError,
    errors.ConfigurationError,
    errors.ConnectionFailed,
    errors.DeadlineExceeded,
    errors.InvalidResponse,
    errors.InvalidSignature,
)
OF_JOBS: tuple[type[errors.JobError], ...] = (errors.JobError, errors.JobFailed, errors.JobCanceled, errors.JobExpired)
OF_ANSWERS: tuple[type[errors.APIError], ...] = (
    errors.APIError,
    errors.ServerError,
    *dict.fromkeys(errors.BY_STATUS.values()),
)
ERRORS: list[errors.CharoniaError] = [
    *(kind("what is wrong") for kind in SIMPLE),
    errors.InvalidInput([FieldProblem("/inputs/x", "is missing"), FieldProblem("/y", "is wrong")]),
    *(kind(JOB) for kind in OF_JOBS),
    *(kind(429, "some_code", "why", [FieldProblem("/x", "bad")], 2.5, "1" * 32) for kind in OF_ANSWERS),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_and_copying(error: errors.CharoniaError) -> None:
    for found in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 -- its own bytes
        assert type(found) is type(error)
        assert (str(found), found.args, vars(found)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("status", [401, 204])
def test_an_error_after_the_submit_names_the_job(status: int) -> None:
    queued = msgspec.json.encode(msgspec.structs.replace(JOB, status="queued", error=None))

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(202, content=queued)
        if "models" in request.url.path:
            return httpx.Response(403)
        if status == 401:
            return httpx.Response(status)
        raise httpx.ReadTimeout("nothing came", request=request)

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = Charonia("http://gateway", "k", http=http, timeout=2.0)
        with pytest.raises(errors.CharoniaError) as caught:
            client.run("m", x=1, timeout=2.0)
    assert caught.value.job_id == "job_1"


def test_a_missed_deadline_says_which_job_goes_on() -> None:
    error = errors.DeadlineExceeded("the events took over 1 s")
    with pytest.raises(errors.DeadlineExceeded, match=r"over 1 s\. The job job_1 goes on"), KnownJob("job_1"):
        raise error
    assert error.job_id == "job_1"
    assert errors.JobFailed(JOB).job_id == "job_1"


def test_an_empty_name_or_id_is_refused() -> None:
    with Charonia("http://gateway", "k") as client:
        with pytest.raises(errors.InvalidInput, match="job_id: is ''"):
            client.jobs.get("")
        with pytest.raises(errors.InvalidInput, match="model: is empty"):
            client.run("", x=1)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_a_name_that_no_path_can_have_is_refused(name: str) -> None:
    with Charonia("http://gateway", "k") as client, pytest.raises(errors.InvalidInput, match="name: is "):
        client.pipelines.get(name)
