"""The load: jobs and runs at a steady rate, submitted until accepted. Some are canceled, retried or erased."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from http import HTTPStatus
from typing import Any

from tests.storm.client import PAUSE_SECONDS, Client
from tests.storm.job_requests import JobRequest, make_request
from tests.storm.receiver import Receiver
from tests.storm.storm_log import TERMINAL_EVENTS, Call, Delivery, Operation, StormLog, Submission, read_key
from tests.storm.submits import Submitter

DRAIN_SECONDS = 60.0  # seconds for calls in progress when the load ends
BATCH_EVERY, BATCH = 150, 12  # a batch of so many among so many jobs
MAX_UNANSWERED = 3  # calls without a clear response before the load gives up
MAX_CALLS = 20  # also those that are to be tried again soon
LATER = "try again soon"  # of a 409 while a job of a step, or a webhook, has not ended


class Load:
    def __init__(
        self, client: Client, receiver: Receiver, log: StormLog, *, seed: int, rate: float, in_flight: int
    ) -> None:
        """`rate` is in jobs per second. At most `in_flight` jobs are in progress. A run counts as one.

        There are runs while `with_runs` is set. Their pipelines must be stored.
        """
        self.with_runs = True
        self._client = client
        self._submitter = Submitter(client, receiver, log)
        self._log = log
        self._seed = seed
        self._rate = rate
        self._in_flight = in_flight
        self._in_progress: set[str] = set()  # keys of accepted jobs that have not ended
        self._notified: set[str] = set()  # keys of jobs that ended, some before the response to their submit
        self._retried: set[str] = set()
        self._received: dict[str, set[tuple[int, str]]] = {}  # ends that a path accepted, by key
        self._tasks: set[asyncio.Task[None]] = set()
        self._submitting = 0
        self._ended = False  # no more calls: one that is not awaited would be missing in the log
        receiver.listeners.append(self._handle)

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
                size = BATCH if number % BATCH_EVERY == BATCH_EVERY - 1 else 1
                numbers = range(number, number + size)
                self._start(self._submit([make_request(self._seed, each, runs=self.with_runs) for each in numbers]))
                number += size
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

    async def _submit(self, requests: Sequence[JobRequest]) -> None:
        self._submitting += len(requests)
        try:
            submit = self._submitter.submit_batch(requests) if len(requests) > 1 else self._submitter.submit(*requests)
            for submission in await submit:
                if submission.key not in self._notified:
                    self._in_progress.add(submission.key)
                if submission.request.cancel_after is not None:
                    self._start(self._cancel(submission, submission.request.cancel_after))
        finally:
            self._submitting -= len(requests)

    async def _cancel(self, submission: Submission, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._call_until_answered("cancel", f"{submission.job_id}/cancel", submission.cancels)

    async def _retry(self, submission: Submission) -> None:
        await self._call_until_answered("retry", f"{submission.job_id}/retry", submission.retries)

    async def _erase(self, submission: Submission) -> None:
        await self._call_until_answered("erase", f"{submission.job_id}/erase", submission.erasures)

    async def _call_until_answered(self, operation: Operation, path: str, calls: list[Call]) -> None:
        """Call until there is a clear response, but only so many times."""
        unanswered = 0
        for _ in range(MAX_CALLS):
            call, _ = await self._client.call(operation, f"/v1/jobs/{path}")
            calls.append(call)
            is_refused = call.status == HTTPStatus.CONFLICT
            if call.outcome == "accepted" or (is_refused and LATER not in call.detail):
                return
            if not is_refused:
                self._log.note_anomaly(call)
                unanswered += 1
            if unanswered == MAX_UNANSWERED:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    def _handle(self, delivery: Delivery) -> None:
        """Handle a webhook: its job has ended. It is retried once, or erased when both receivers know of its end."""
        event = delivery.event
        if event is None or event.type not in TERMINAL_EVENTS:
            return
        key = read_key(event)
        self._notified.add(key)
        self._in_progress.discard(key)
        received = self._received.setdefault(key, set())
        if delivery.was_accepted:
            received.add((event.sequence, delivery.path))
        submission = self._log.submissions.get(key)
        if submission is None or submission.job_id is None or self._ended:
            return
        if submission.request.retry_once and event.type != "job.succeeded" and key not in self._retried:
            self._retried.add(key)
            self._start(self._retry(submission))
        elif submission.request.erase and self._has_ended_for_good(submission, len(received)):
            self._start(self._erase(submission))

    def _has_ended_for_good(self, submission: Submission, received: int) -> bool:
        """Return whether both receivers have accepted each end of a job, and no more of them can follow."""
        answered = [call.outcome for call in submission.retries if call.outcome != "refused"]
        return received == 2 * (1 + len(answered)) and answered == ["accepted"] * (submission.key in self._retried)
