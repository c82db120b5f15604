"""The Job as clients and receivers see it."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import SettingsError
from common.job_states import Priority, Status
from common.jobs.job import Job
from common.security.signed_urls import UrlSigner
from common.settings import load
from common.views.job import MAX_OUTPUTS, JobUrls, format_time, list_job, render_event, view_job
from services.dispatcher.settings import DispatcherSettings

REQUIRED = {
    "CHARONIA_DATABASE_URL": "postgres://d",
    "CHARONIA_AMQP_URL": "amqp://a",
    "CHARONIA_PORT": "1",
    "CHARONIA_TRITON_URL": "t:1",
    "CHARONIA_URL_KEYS": "k",
    "CHARONIA_STORE_URL": "file:///store",
}
AT = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
JOB = "job_01h455vb4pex5vsknk084sn02q"
ROW = Job(
    id=UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
    tenant_id=UUID(int=1),
    model="ocr",
    version="1",
    priority=Priority.NORMAL,
    status=Status.SUCCEEDED,
    attempt=1,
    max_attempts=5,
    created_at=AT,
    run_at=AT,
    started_at=AT + timedelta(milliseconds=12),
    finished_at=AT + timedelta(milliseconds=671),
    expires_at=None,
    error_code=None,
    error_message=None,
    error_retryable=None,
    inference_ms=640.4,
    traceparent=f"00-{TRACE}-00f067aa0ba902b7-01",
    metadata=b'{"z": 1, "a": 1.50}',
)
OUTPUTS = b'[{"name":"TEXT","datatype":"BYTES","shape":[1],"data":["\xc3\xbc"]}]'


@pytest.mark.parametrize(("status", "queue_ms"), [(Status.QUEUED, None), (Status.CANCELED, None), (Status.FAILED, 12)])
def test_the_wait_for_an_attempt_is_unknown_once_the_next_is_due(status: Status, queue_ms: int | None) -> None:
    """A requeue moves `run_at`. It was 0 then."""
    run_at = AT if queue_ms else AT + timedelta(seconds=40)
    row = msgspec.structs.replace(ROW, status=status, run_at=run_at)
    assert view_job(row, JobUrls(), webhook_status="none").metrics.queue_ms == queue_ms


def test_a_succeeded_job() -> None:
    view = view_job(ROW, JobUrls(), webhook_status="pending", outputs=OUTPUTS)
    assert json.loads(msgspec.json.encode(view)) == {
        "id": JOB,
        "status": "succeeded",
        "model": "ocr",
        "version": "1",
        "priority": "normal",
        "attempt": 1,
        "max_attempts": 5,
        "created_at": "2026-11-20T12:00:00.123Z",
        "run_at": "2026-11-20T12:00:00.123Z",
        "started_at": "2026-11-20T12:00:00.135Z",
        "finished_at": "2026-11-20T12:00:00.794Z",
        "expires_at": None,
        "outputs": [{"name": "TEXT", "datatype": "BYTES", "shape": [1], "data": ["ü"]}],
        "error": None,
        "queue_position": None,
        "waiting_for": None,
        "webhook_status": "pending",
        "metadata": {"z": 1, "a": 1.5},
        "trace_id": TRACE,
        "metrics": {"queue_ms": 12, "inference_ms": 640, "total_ms": 671},
        "urls": {
            "self": f"/v1/jobs/{JOB}",
            "cancel": f"/v1/jobs/{JOB}/cancel",
            "events": f"/v1/jobs/{JOB}/events",
            "deliveries": f"/v1/jobs/{JOB}/deliveries",
            "trace": None,
        },
    }


def test_metadata_and_outputs_keep_their_bytes() -> None:
    body = render_event(ROW, JobUrls(), "job.succeeded", AT, OUTPUTS, sequence=1999)
    assert ROW.metadata is not None
    assert ROW.metadata in body
    assert OUTPUTS in body


def test_urls_have_the_configured_hosts() -> None:
    links = JobUrls("https://api.example.com", "https://traces.example.com")
    urls = view_job(ROW, links, webhook_status="none").urls
    assert urls.self == f"https://api.example.com/v1/jobs/{JOB}"
    assert urls.trace == f"https://traces.example.com/trace/{TRACE}"


def test_values_not_known_yet_are_null() -> None:
    row = msgspec.structs.replace(
        ROW, status=Status.QUEUED, started_at=None, finished_at=None, inference_ms=None, metadata=None
    )
    view = view_job(row, JobUrls(), webhook_status="none", queue_position=3)
    assert (view.started_at, view.finished_at, view.outputs, view.queue_position) == (None, None, None, 3)
    assert view.metrics == type(view.metrics)(None, None, None)
    assert bytes(view.metadata) == b"{}"


def test_the_wait_for_run_at_is_not_time_in_the_queue() -> None:
    start = AT + timedelta(hours=1)
    row = msgspec.structs.replace(ROW, run_at=start, started_at=start + timedelta(milliseconds=7))
    assert view_job(row, JobUrls(), webhook_status="none").metrics.queue_ms == 7


def test_the_last_error_is_shown() -> None:
    row = msgspec.structs.replace(ROW, error_code="triton_unavailable", error_message="down", error_retryable=True)
    error = view_job(row, JobUrls(), webhook_status="none").error
    assert error is not None
    assert (error.code, error.message, error.retryable) == ("triton_unavailable", "down", True)


@pytest.mark.parametrize("extra", [0, 1])
def test_a_url_replaces_outputs_over_the_limit(extra: int) -> None:
    outputs = b'["' + b"x" * (MAX_OUTPUTS - 4 + extra) + b'"]'
    links = JobUrls("https://api.example.com", signer=UrlSigner(["key" * 11]))
    body = json.loads(render_event(ROW, links, "job.succeeded", AT, outputs, sequence=1999))
    assert body["type"] == "job.succeeded"
    assert body["sequence"] == 1999
    assert body["timestamp"] == "2026-11-20T12:00:00.123Z"
    assert body["data"]["webhook_status"] is None
    if extra:
        assert (body["data"]["outputs"], body["data"]["outputs_omitted"]) == (None, "too_large")
        signed = UrlSigner(["key" * 11]).sign(ROW.id, AT)
        assert body["data"]["outputs_url"] == f"https://api.example.com/v1/jobs/{JOB}/outputs?{signed}"
    else:
        assert len(body["data"]["outputs"][0]) == MAX_OUTPUTS - 4
        assert not {"outputs_url", "outputs_omitted"} & body["data"].keys()


FILE = "file_01h455vb4pex5vsknk084sn02q"


def test_files_of_outputs_get_urls_that_need_no_key_and_texts_do_not() -> None:
    signer = UrlSigner(["key" * 11])
    text = f'{{"file":"{FILE}"}}'
    outputs = msgspec.json.encode([{"data": [text]}, {"file": FILE, "size": 7}, {"file": FILE}])
    links = JobUrls("https://api.example.com", signer=signer)
    url = f"https://api.example.com/v1/files/{FILE}/content?{signer.sign(ROW.id, AT)}"
    shown = [{"data": [text]}, {"file": FILE, "download_url": url, "size": 7}, {"file": FILE, "download_url": url}]
    assert json.loads(links.add_file_urls(outputs, AT)) == shown
    assert links.add_file_urls(OUTPUTS, AT) is OUTPUTS
    body = json.loads(render_event(ROW, links, "job.succeeded", AT, outputs, sequence=1999))
    assert body["data"]["outputs"] == shown


def test_files_that_jobs_share_get_urls_of_their_job() -> None:
    signer = UrlSigner(["key" * 11])
    row = msgspec.structs.replace(ROW, reuse_key=bytes(32), reused_from=UUID(int=7))
    outputs = msgspec.json.encode([{"file": FILE}])
    links = JobUrls(signer=signer)
    body = json.loads(render_event(row, links, "job.succeeded", AT, outputs, sequence=1999))
    file_id = ids.parse(ids.Kind.FILE, FILE)
    assert file_id is not None
    url = f"/v1/files/{FILE}/content?{signer.sign(file_id, AT, job=row.id)}"
    assert body["data"]["outputs"][0]["download_url"] == url
    assert body["data"]["reused_from"] == ids.encode(ids.Kind.JOB, UUID(int=7))


def test_large_outputs_need_not_be_read_to_be_left_out() -> None:
    body = json.loads(render_event(ROW, JobUrls(), "job.succeeded", AT, None, sequence=1999, has_large_outputs=True))
    assert (body["data"]["outputs"], body["data"]["outputs_omitted"]) == (None, "too_large")


def test_times_are_in_utc_with_milliseconds() -> None:
    assert format_time(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == "2025-12-31T23:00:00.000Z"


@pytest.mark.parametrize(
    ("setting", "url"),
    [
        ("", None),
        ("http://localhost:16686", "http://localhost:16686/trace/abc"),
        ("http://localhost:16686/jaeger/", "http://localhost:16686/jaeger/trace/abc"),
        ("https://traces.example.com/explore?id={trace_id}&org=1", "https://traces.example.com/explore?id=abc&org=1"),
    ],
)
def test_the_url_of_a_trace_follows_the_setting(setting: str, url: str | None) -> None:
    settings = load(DispatcherSettings, REQUIRED | {"CHARONIA_TRACE_URL": setting})
    assert JobUrls(traces=settings.trace_url).trace("abc") == url


@pytest.mark.parametrize("setting", ["localhost:16686", "http://", "http://localhost/{trace}", "http://localhost/a b"])
def test_a_wrong_trace_url_is_refused(setting: str) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_TRACE_URL is wrong"):
        load(DispatcherSettings, REQUIRED | {"CHARONIA_TRACE_URL": setting})


@pytest.mark.parametrize(
    ("changes", "omitted"),
    [
        ({"status": Status.SUCCEEDED}, {"outputs_omitted": "in_lists", "outputs_url": f"/v1/jobs/{JOB}/outputs"}),
        ({"status": Status.SUCCEEDED, "erased_at": AT}, {"outputs_omitted": "erased"}),
        ({"status": Status.FAILED, "erased_at": AT}, {}),
        ({"status": Status.PROCESSING}, {}),
    ],
)
def test_a_list_says_why_it_has_no_outputs(changes: dict[str, Any], omitted: dict[str, str]) -> None:
    shown = json.loads(msgspec.json.encode(list_job(msgspec.structs.replace(ROW, **changes), JobUrls())))
    assert (shown["outputs"], shown["webhook_status"]) == (None, None)
    assert {name: value for name, value in shown.items() if name.startswith("outputs_")} == omitted
