"""Submits jobs and batches until they are accepted, some with an idempotency key. The log has all that was tried."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus

import msgspec

from tests.storm.client import PAUSE_SECONDS, Accepted, Client, NoResponse
from tests.storm.job_requests import JobRequest
from tests.storm.receiver import Receiver
from tests.storm.storm_log import Call, StormLog, Submission

MAX_SUBMITS = 6


class Keyed(msgspec.Struct, frozen=True):
    """The needed fields of a job of a batch."""

    id: str
    metadata: dict[str, str]


class KeyedJobs(msgspec.Struct, frozen=True):
    items: list[Keyed]


class Submitter:
    def __init__(self, client: Client, receiver: Receiver, log: StormLog) -> None:
        self._client = client
        self._receiver = receiver
        self._log = log

    async def submit(self, request: JobRequest) -> list[Submission]:
        """Submit until the job is accepted. Return the accepted submission, or none."""
        if request.keyed:
            return await self._submit_keyed(request)
        for index in range(MAX_SUBMITS):
            key = f"{request.number}.{index}"
            call, job = await self._client.call("submit", "/v1/jobs", self._write(request, key))
            submission = self._note(key, request, call, job.id if job else None)
            if job is not None:
                return [submission]
            self._log.note_anomaly(call)
            await asyncio.sleep(PAUSE_SECONDS)
        return []

    async def submit_batch(self, requests: Sequence[JobRequest]) -> list[Submission]:
        """Submit a batch until it is accepted. Return the submissions of its jobs, or none."""
        keys = {f"{each.number}.0": each for each in requests}
        content = b"[%b]" % b",".join(self._write(request, key) for key, request in keys.items())
        call, batch = await self._repeat("/v1/batches", content, f"batch-{requests[0].number}")
        jobs: dict[str, str] = {}
        if batch is not None:
            try:
                found = await self._client.read(f"/v1/jobs?batch={batch.id}&limit=1000", KeyedJobs)
                jobs = {each.metadata["key"]: each.id for each in found.items}
            except NoResponse as error:
                self._log.anomalies.append(f"the jobs of a batch cannot be read: {error}")
            if len(jobs) != len(keys):
                self._log.anomalies.append(f"a batch of {len(keys)} has {len(jobs)} jobs: {call.detail}")
        made = {key: request for key, request in keys.items() if batch is None or key in jobs}
        submissions = [self._note(key, request, call, jobs.get(key)) for key, request in made.items()]
        return submissions if batch is not None else []

    async def _submit_keyed(self, request: JobRequest) -> list[Submission]:
        """Submit the same body with the same idempotency key: however often, it is one job."""
        key = f"{request.number}.0"
        call, job = await self._repeat("/v1/jobs", self._write(request, key), f"job-{request.number}")
        submission = self._note(key, request, call, job.id if job else None)
        return [submission] if job else []

    async def _repeat(self, path: str, content: bytes, key: str) -> tuple[Call, Accepted | None]:
        """Call until the call is accepted. Return all calls as one, which is unknown if one of them was."""
        calls: list[Call] = []
        for _ in range(MAX_SUBMITS):
            call, made = await self._client.call("submit", path, content, key=key)
            calls.append(call)
            if made is not None:
                return replace(call, began=calls[0].began), made
            if call.status != HTTPStatus.CONFLICT:  # the first request with the key is under way
                self._log.note_anomaly(call)
            await asyncio.sleep(PAUSE_SECONDS)
        shown = next((each for each in calls if each.outcome == "unknown"), calls[-1])
        return replace(shown, began=calls[0].began, ended=calls[-1].ended), None

    def _write(self, request: JobRequest, key: str) -> bytes:
        return msgspec.json.encode(request.build_body(key, self._receiver.add_callback(key, request.responses)))

    def _note(self, key: str, request: JobRequest, call: Call, job: str | None) -> Submission:
        submission = Submission(key, request, call, job)
        self._log.add_submission(submission)
        return submission
