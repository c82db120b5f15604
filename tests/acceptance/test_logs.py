"""The log files of the services: lines of JSON, one for each outcome, which say whose it is and in which trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from deploy.local.stack import Stack
from tests.acceptance.client import Api, Job
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import fault, work
from tests.acceptance.waiting import eventually

Line = Mapping[str, Any]
ECHO = {"x": [[1.0]]}
RETRY = {"max_attempts": 2, "initial_delay": 0.01}


class Logs:
    """What the services write from now on."""

    def __init__(self, stack: Stack) -> None:
        self.paths: dict[str, Path] = {each.kind: each.process.log.path for each in stack.services}
        self.seen = {kind: path.stat().st_size for kind, path in self.paths.items()}

    def read(self, kind: str) -> list[Line]:
        """Fails where a line is no JSON."""
        with self.paths[kind].open("rb") as file:
            file.seek(self.seen[kind])
            whole, _, _ = file.read().rpartition(b"\n")
        lines = [msgspec.json.decode(line) for line in whole.splitlines()]
        assert all({"time", "level", "event"} <= line.keys() for line in lines)
        return lines

    def tell(self, job: Job) -> dict[str, list[str]]:
        """The outcomes of a job, by service; fails where a line does not say whose it is."""
        told: dict[str, list[str]] = {}
        tenants = set()
        for kind in self.paths:
            lines = [line for line in self.read(kind) if line.get("job_id") == job.id]
            assert {line["trace_id"] for line in lines} <= {job.trace_id}
            tenants |= {line["tenant"] for line in lines}
            told[kind] = [line["event"] for line in lines]
        assert len(tenants) == 1
        return told

    async def wait(self, job: Job, **expected: list[str]) -> None:
        async def look() -> bool:
            return self.tell(job) == expected

        await eventually(look, f"{expected} of {job.id} and no more, but {self.tell(job)}")


async def test_each_outcome_of_a_job_is_one_line(stack: Stack, api: Api, receiver: Receiver) -> None:
    logs, inbox = Logs(stack), receiver.inbox(500)
    told = await api.submit("echo", ECHO, webhook={"url": inbox.url})
    await api.wait_for_webhooks((await api.wait(told.id)).id)
    (delivery,) = (await api.http.get(f"/v1/jobs/{told.id}/deliveries")).json()["items"]
    await api.http.post(f"/v1/deliveries/{delivery['id']}/redeliver")
    failing = await api.run("faulty", fault("unavailable"), retry=RETRY)
    canceled = await api.submit("work", work(30_000))
    await api.wait(canceled.id, "processing")
    await api.http.post(f"/v1/jobs/{canceled.id}/cancel")
    await api.wait(canceled.id)

    ends = ["delivery.failed", "delivery.succeeded", "delivery.succeeded"]
    await logs.wait(told, gateway=["job.accepted", "delivery.again"], dispatcher=["job.succeeded"], notifier=ends)
    await logs.wait(failing, gateway=["job.accepted"], dispatcher=["job.requeued", "job.failed"], notifier=[])
    await logs.wait(canceled, gateway=["job.accepted", "job.canceling"], dispatcher=["job.canceled"], notifier=[])


async def test_a_batch_and_a_refused_request_are_lines_too(stack: Stack, api: Api) -> None:
    logs = Logs(stack)
    accepted = (await api.http.post("/v1/batches", json=[{"model": "echo", "inputs": ECHO}])).json()
    assert (await api.http.post("/v1/jobs", json={"model": "echo"})).status_code == 422

    async def look() -> list[Line] | None:
        lines = [line for kind in ("gateway", "dispatcher") for line in logs.read(kind)]
        mine = [line for line in lines if line.get("batch_id") == accepted["id"] or line["event"] == "request.refused"]
        return mine if len(mine) == 3 else None

    lines = await eventually(look, "the batch's begin and end, and the refusal")
    assert [line["event"] for line in lines] == ["batch.accepted", "request.refused", "batch.completed"]
    assert all(len(line["trace_id"]) == 32 and line["tenant"].startswith("tnt_") for line in lines)
    assert [lines[0][name] for name in ("accepted", "total")] == [1, 1]
    assert [lines[1][name] for name in ("method", "route", "status", "code")] == [
        *("POST", "/v1/jobs", 422, "invalid_request")
    ]
