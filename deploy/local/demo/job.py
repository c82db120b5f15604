"""Runs one job from its submission to the verified webhook, and reports each step."""

import time
from collections.abc import Callable
from pathlib import Path

import charonia

from deploy.local.demo.errors import DemoFailed
from deploy.local.demo.inbox import Inbox, Posted

IMAGE = Path(__file__).parents[1] / "demo.png"
MODEL = "ocr"
TEXT = ["Charonia tritonis", "blows the Triton's trumpet", "when the GPU has answered"]  # in the image
EVENTS = [f"job.{name}" for name in ("started", "succeeded", "failed", "canceled", "expired")]
WITHIN = 60.0  # seconds from the submission to the last webhook
POLL = 0.05

Teller = Callable[[float, str, str], None]  # milliseconds since the submission, the step, the details


class Job:
    """`check` raises if a process of the stack has ended."""

    def __init__(self, client: charonia.Charonia, inbox: Inbox, check: Callable[[], None], tell: Teller) -> None:
        self.trace = ""
        self.webhooks: set[str] = set()  # their ids; the same one may arrive twice
        self._inbox = inbox
        self._check = check
        self._tell_at = tell
        self._client = client
        self._secret = client.webhooks.get_secret().secret
        self._submitted = 0.0
        self._running = False
        self._has_result = False
        self._delivered: charonia.JobEvent | None = None

    def run(self) -> None:
        """Submit the job, and wait for its result and webhook. Raise DemoFailed or CharoniaError if one is wrong."""
        job = self._submit()
        deadline = self._submitted + WITHIN
        while not self._has_result or self._delivered is None:
            if time.monotonic() > deadline:
                missing = "webhook" if self._has_result else "result"
                raise DemoFailed(f"no {missing} of {job.id} within {WITHIN:g} s")
            self._check()
            posted = self._inbox.take(POLL)
            if posted is not None:
                self._receive(posted, job.id)
            if not self._has_result:
                self._look(job.refresh())
        delivered = self._delivered.data.outputs
        if delivered != job.data.outputs:
            raise DemoFailed(f"the webhook has {delivered}, the API has {job.data.outputs}")

    def _submit(self) -> charonia.Job:
        self._submitted = time.monotonic()
        self._tell("submitting", f"{IMAGE.name} ({IMAGE.stat().st_size} bytes) to the model {MODEL}")
        job = self._client.submit(MODEL, image=IMAGE, webhook={"url": f"{self._inbox.url}/webhook", "events": EVENTS})
        self.trace = job.trace_id
        self._tell("accepted", f"202, {job.id}")
        self._tell(job.status, f"trace {self.trace}")
        return job

    def _look(self, job: charonia.Job) -> None:
        if job.status == "processing":
            self._note_running("seen by polling")
        if not job.data.has_ended:
            return
        result = job.result()  # raises if it failed
        self._tell("result", f"succeeded, inference {job.data.metrics.inference_ms} ms")
        for line, score in zip(result["text"], result["scores"], strict=True):
            self._tell("", f'"{line}" (score {score:.3f})')
        if result["text"] != TEXT:
            raise DemoFailed(f"the model read {result['text']}, the image has {TEXT}")
        self._has_result = True

    def _receive(self, posted: Posted, job_id: str) -> None:
        event = charonia.verify(posted.body, posted.headers, self._secret)
        if not isinstance(event, charonia.JobEvent) or event.data.id != job_id:
            raise DemoFailed(f"an unexpected webhook: {event}")
        if event.type == "job.started":
            self._note_running("by the webhook job.started", posted.at)
        self.webhooks.add(event.id)
        self._tell("webhook", f"{event.type}, webhook-id {event.id}", posted.at)
        self._tell("verified", "charonia.verify: the signature is correct")
        if event.type != "job.started":
            self._delivered = event

    def _note_running(self, how: str, at: float | None = None) -> None:
        if not self._running:
            self._running = True
            self._tell("running", how, at)

    def _tell(self, step: str, text: str, at: float | None = None) -> None:
        self._tell_at(((at or time.monotonic()) - self._submitted) * 1000, step, text)
