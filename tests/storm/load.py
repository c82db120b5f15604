"""The load: jobs at a steady rate, submitted until accepted. Some are canceled, and some are retried."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any

from tests.storm.client import PAUSE_SECONDS, Client
from tests.storm.job_requests import JobRequest, make_request
from tests.storm.receiver import Receiver
from tests.storm.storm_log import TERMINAL_EVENTS, Call, Operation, StormLog, Submission, read_key
from tests.support.receivers.webhook_receiver import Event

MAX_SUBMITS = 6
DRAIN_SECONDS = 60.0  # seconds for calls in progress when the load ends


class Load:
    def __init__(
        self, client: Client, receiver: Receiver, log: StormLog, *, seed: int, rate: float, in_flight: int
    ) -> None:
        """`rate` is in jobs per second. At most `in_flight` jobs are in progress."""
        self._client = client
        self._receiver = receiver
        self._log = log
        self._seed = seed
        self._rate = rate
        self._in_flight = in_flight
        self._in_progress: set[str] = set()  # keys of accepted jobs that have not ended
        self._notified: set[str] = set()  # keys of jobs that ended, some before the response to their submit
        self._retried: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._submitting = 0
        self._ended = False  # no more calls: one that is not awaited would be missing in the log
        receiver.listeners.append(self._handle_event)

    def count_unfinished(self) -> int:
        """Return how many accepted jobs have not had the webhook of their end."""
        return len(self._in_progress)

    async def run(self, until: asyncio.Event, limit: int) -> None:
        """Submit until `until` is set or `limit` requests are reached. Then wait for the calls in progress."""
        began, number = time.monotonic(), 0
        while not until.is_set() and number < limit:
            if len(self._in_progress) + self._submitting >= self._in_flight:
                began += 1 / self._rate  # the missed submit is not made up for
            else:
                self._start(self._submit(make_request(self._seed, number)))
                number += 1
            await asyncio.sleep(max(0.0, began + number / self._rate - time.monotonic()))
        self._ended = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._tasks:  # a submit may start a cancel
                    await asyncio.wait(self._tasks)
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.anomalies.append(f"the load failed: {error!r}")

    async def _submit(self, request: JobRequest) -> None:
        self._submitting += 1
        try:
            for index in range(MAX_SUBMITS):
                if await self._submit_once(request, f"{request.number}.{index}"):
                    return
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._submitting -= 1

    async def _submit_once(self, request: JobRequest, key: str) -> bool:
        """Submit once and return whether the job was accepted."""
        body = request.build_body(key, self._receiver.add_callback(key, request.responses))
        call, job = await self._client.call("submit", "/v1/jobs", body)
        submission = Submission(key, request, call, job.id if job else None)
        self._log.add_submission(submission)
        if job is None:
            self._note_anomaly(call)
            return False
        if key not in self._notified:
            self._in_progress.add(key)
        if request.cancel_after is not None:
            self._start(self._cancel(submission, request.cancel_after))
        return True

    async def _cancel(self, submission: Submission, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._call_until_answered("cancel", submission, submission.cancels)

    async def _retry(self, submission: Submission) -> None:
        await self._call_until_answered("retry", submission, submission.retries)

    async def _call_until_answered(self, operation: Operation, submission: Submission, calls: list[Call]) -> None:
        """Call until there is a clear response, at most three times."""
        for _ in range(3):
            call, job = await self._client.call(operation, f"/v1/jobs/{submission.job_id}/{operation}")
            calls.append(call)
            if job is not None or call.status == HTTPStatus.CONFLICT:
                return
            self._note_anomaly(call)
            await asyncio.sleep(PAUSE_SECONDS)

    def _note_anomaly(self, call: Call) -> None:
        """Note a response that no fault explains."""
        if call.status not in (None, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            self._log.anomalies.append(f"{call.operation} returned {call.status}: {call.detail}")

    def _handle_event(self, event: Event) -> None:
        """Handle a webhook: its job has ended, or is retried once."""
        if event.type not in TERMINAL_EVENTS:
            return
        key = read_key(event)
        self._notified.add(key)
        self._in_progress.discard(key)
        submission = self._log.submissions.get(key)
        if submission is None or submission.job_id is None or key in self._retried or self._ended:
            return
        if submission.request.retry_once and event.type != "job.succeeded":
            self._retried.add(key)
            self._start(self._retry(submission))
