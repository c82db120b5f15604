"""The services log one line of JSON per outcome, with the job and the trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from deploy.local.stack import Stack
from tests.support.api.api_client import Api, Job
from tests.support.api.model_inputs import fault, work
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

Line = Mapping[str, Any]
ECHO = {"x": [[1.0]]}
RETRY = {"max_attempts": 2, "initial_delay": 0.01}


class Logs:
    """The lines that the services write after this object was made."""

    def __init__(self, stack: Stack) -> None:
        self._paths: dict[str, Path] = {each.kind: each.process.log.path for each in stack.services}
        self._seen = {kind: path.stat().st_size for kind, path in self._paths.items()}

    def read(self, kind: str) -> list[Line]:
        """Return the lines of a service. Fail if a line is not JSON."""
        with self._paths[kind].open("rb") as file:
            file.seek(self._seen[kind])
            complete, _, _ = file.read().rpartition(b"\n")
        lines = [msgspec.json.decode(line) for line in complete.splitlines()]
        assert all({"time", "level", "event"} <= line.keys() for line in lines)
        return lines

    def find_events(self, job: Job) -> dict[str, list[str]]:
        """Return the events of a job by service. Fail if a line has the wrong trace, or no tenant."""
        events: dict[str, list[str]] = {}
        tenants = set()
        for kind in self._paths:
            lines = [line for line in self.read(kind) if line.get("job_id") == job.id]
            assert {line["trace_id"] for line in lines} <= {job.trace_id}
            tenants |= {line["tenant"] for line in lines}
            events[kind] = [line["event"] for line in lines]
        assert len(tenants) == 1
        return events

    async def wait(self, job: Job, **expected: list[str]) -> None:
        async def poll() -> bool:
            return self.find_events(job) == expected

        await eventually(poll, f"{expected} of {job.id} and no more, but {self.find_events(job)}")


async def test_each_outcome_of_a_job_is_one_log_line(stack: Stack, api: Api, receiver: Receiver) -> None:
    logs, inbox = Logs(stack), receiver.inbox(500)
    webhook_job = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await api.wait_for_webhooks((await api.wait(webhook_job.id)).id)
    (delivery,) = (await api.http.get(f"/v1/jobs/{webhook_job.id}/deliveries")).json()["items"]
    await api.http.post(f"/v1/deliveries/{delivery['id']}/redeliver")
    failing = await api.run("faulty", fault("unavailable"), retry=RETRY)
    canceled = await api.submit("work", work(30_000))
    await api.wait(canceled.id, "processing")
    await api.http.post(f"/v1/jobs/{canceled.id}/cancel")
    await api.wait(canceled.id)

    ends = ["delivery.failed", "delivery.succeeded", "delivery.succeeded"]
    await logs.wait(
        webhook_job, gateway=["job.accepted", "delivery.redelivered"], dispatcher=["job.succeeded"], notifier=ends
    )
    await logs.wait(failing, gateway=["job.accepted"], dispatcher=["job.requeued", "job.failed"], notifier=[])
    await logs.wait(canceled, gateway=["job.accepted", "job.canceling"], dispatcher=["job.canceled"], notifier=[])


async def test_batches_and_refused_requests_are_logged(stack: Stack, api: Api) -> None:
    logs = Logs(stack)
    accepted = (await api.http.post("/v1/batches", json=[{"model": "echo", "inputs": ECHO}])).json()
    assert (await api.http.post("/v1/jobs", json={"model": "echo"})).status_code == 422

    async def poll() -> list[Line] | None:
        lines = [line for kind in ("gateway", "dispatcher") for line in logs.read(kind)]
        own = [line for line in lines if line.get("batch_id") == accepted["id"] or line["event"] == "request.refused"]
        return own if len(own) == 3 else None

    lines = await eventually(poll, "the batch's start and end, and the refused request")
    assert [line["event"] for line in lines] == ["batch.accepted", "request.refused", "batch.completed"]
    assert all(len(line["trace_id"]) == 32 and line["tenant"].startswith("tnt_") for line in lines)
    assert [lines[0][name] for name in ("accepted", "total")] == [1, 1]
    assert [lines[1][name] for name in ("method", "route", "status", "code")] == [
        "POST",
        "/v1/jobs",
        422,
        "invalid_request",
    ]
