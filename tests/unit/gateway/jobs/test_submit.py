"""Building a job from a request."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids, tensors
from common.job_states import Status
from common.jobs.submit import JobTimes
from common.rabbitmq.messages import JobsQueued, QueuedJob
from common.tensors import Datatype, Tensor
from services.gateway.jobs.options import MAX_PARAMETER_BYTES
from services.gateway.jobs.parse import MAX_METADATA, build_job, find_option_errors
from services.gateway.jobs.schemas import Callback, RetryRule, SubmitJob
from services.gateway.jobs.submit import to_row

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TENANT = ids.new()
X = Tensor("x", Datatype.UINT8, [1], b"\x07")


def request(**changes: Any) -> SubmitJob:
    return SubmitJob(**{"model": "echo", "inputs": {"x": 7}} | changes)


def pointers(job: SubmitJob) -> list[str]:
    return [error.pointer for error in find_option_errors(job)]


def test_the_defaults_are_valid() -> None:
    assert find_option_errors(request()) == []


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"retry": RetryRule(initial_delay=2.0, max_delay=1.0)}, "/retry/max_delay"),
        ({"run_at": datetime.now(UTC) + timedelta(days=400)}, "/run_at"),
        (
            {"parameters": {"triton_enable_empty_final_response": True}},
            "/parameters/triton_enable_empty_final_response",
        ),
        ({"parameters": {"a/b": 2**63}}, "/parameters/a~1b"),
        ({"parameters": {"a": -(2**63) - 1}}, "/parameters/a"),
        ({"parameters": {"a": "x" * MAX_PARAMETER_BYTES}}, "/parameters"),
        ({"metadata": {"a": "x" * MAX_METADATA}}, "/metadata"),
    ],
)
def test_an_option_out_of_range_is_reported(changes: dict[str, Any], pointer: str) -> None:
    assert pointers(request(**changes)) == [pointer]


@pytest.mark.parametrize(
    ("events", "types"),
    [
        (["job.*"], ["job.started", "job.succeeded", "job.failed", "job.canceled", "job.expired"]),
        (["*.failed", "job.failed"], ["job.failed"]),
        (["*"], ["job.started", "job.succeeded", "job.failed", "job.canceled", "job.expired"]),
    ],
)
def test_a_callback_takes_the_patterns_of_subscriptions(events: list[str], types: list[str]) -> None:
    asked = request(webhook=Callback("https://example.com", events))
    assert build_job(TENANT, asked, [X], TRACEPARENT).callback_events == types


def test_the_limits_themselves_are_valid() -> None:
    fits = {"low": -(2**63), "high": 2**63 - 1, "flag": True, "text": "triton_"}
    fits["long"] = "x" * (MAX_PARAMETER_BYTES - len(msgspec.json.encode(fits | {"long": ""})))
    metadata = {"a": "x" * (MAX_METADATA - len('{"a":""}'))}
    retry = RetryRule(initial_delay=1.0, max_delay=1.0)
    assert find_option_errors(request(parameters=fits, metadata=metadata, retry=retry)) == []


def test_every_error_is_reported_at_once() -> None:
    wrong = request(retry=RetryRule(initial_delay=2.0, max_delay=1.0), parameters={"triton_a": 2**63})
    assert pointers(wrong) == ["/retry/max_delay", "/parameters/triton_a", "/parameters/triton_a"]


def test_a_job_has_a_message_with_its_id() -> None:
    job = build_job(TENANT, request(priority="high"), [X], TRACEPARENT)
    assert job.wake_up.message == JobsQueued([QueuedJob(TENANT, job.id)])
    assert (job.wake_up.exchange, job.wake_up.routing_key) == ("charonia.jobs", "job.high.echo")
    assert job.wake_up.traceparent == TRACEPARENT


def test_a_job_has_the_fields_of_the_request() -> None:
    callback = Callback("https://example.com", ["job.failed"])
    wanted = request(version="2", parameters={"p": 1}, metadata={"m": [1]}, webhook=callback, fallback_model="small")
    job = build_job(TENANT, wanted, [X], TRACEPARENT)
    assert tensors.unpack(job.tensors) == [X]
    assert msgspec.json.decode(job.parameters or b"") == {"p": 1}
    assert msgspec.json.decode(job.metadata or b"") == {"m": [1]}
    assert (job.callback_url, job.callback_events) == ("https://example.com", ["job.failed"])
    assert (job.tenant_id, job.version, job.fallback_model) == (TENANT, "2", "small")


def test_missing_fields_stay_empty() -> None:
    job = build_job(TENANT, request(), [X], TRACEPARENT)
    assert (job.parameters, job.metadata, job.callback_url, job.callback_events) == (None, None, None, None)


def test_empty_metadata_is_not_missing_metadata() -> None:
    assert build_job(TENANT, request(metadata={}), [X], TRACEPARENT).metadata == b"{}"


def test_a_time_before_year_1_in_utc_is_valid() -> None:
    ancient = datetime(1, 1, 1, tzinfo=UTC).replace(
        tzinfo=msgspec.convert("0001-01-01T00:00:00+14:00", datetime).tzinfo
    )
    job = build_job(TENANT, request(run_at=ancient), [X], TRACEPARENT)
    assert job.run_at is not None
    assert job.run_at.astimezone(UTC).year == 2000


def test_an_accepted_job_is_queued_with_the_databases_times() -> None:
    job = build_job(TENANT, request(), [X], TRACEPARENT)
    now = datetime.now(UTC)
    row = to_row(job, JobTimes(now, now + timedelta(hours=1), None))
    assert (row.id, row.status, row.attempt, row.created_at) == (job.id, Status.QUEUED, 0, now)
    assert row.run_at - row.created_at == timedelta(hours=1)
    assert isinstance(row.id, UUID)
