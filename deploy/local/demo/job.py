"""Runs one job from its submission to the verified webhook, and reports each step."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from deploy.local.demo.api import Api
from deploy.local.demo.errors import DemoFailed
from deploy.local.demo.inbox import Inbox, Posted

IMAGE = Path(__file__).parents[1] / "demo.png"
MODEL = "ocr"
TEXT = ["Charonia tritonis", "blows the Triton's trumpet", "when the GPU has answered"]  # in the image
ENDED = ("succeeded", "failed", "canceled", "expired")
EVENTS = ["job.started", *(f"job.{status}" for status in ENDED)]
WITHIN = 60.0  # seconds from the submission to the last webhook
POLL = 0.05

Teller = Callable[[float, str, str], None]  # milliseconds since the submission, the step, the details


class Job:
    """`check` raises if a process of the stack has ended."""

    def __init__(self, api: Api, inbox: Inbox, check: Callable[[], None], tell: Teller) -> None:
        self.trace = ""
        self.webhooks: set[str] = set()  # their ids; the same one may arrive twice
        self._api = api
        self._inbox = inbox
        self._check = check
        self._tell_at = tell
        self._verifier = Webhook(api.read_secret())
        self._id = ""
        self._submitted = 0.0
        self._running = False
        self._outputs: list[Any] | None = None
        self._delivered: list[Any] | None = None

    def run(self) -> None:
        """Submit the job and wait for its result and webhook; raise DemoFailed if anything is wrong."""
        self._submit()
        deadline = self._submitted + WITHIN
        while self._outputs is None or self._delivered is None:
            if time.monotonic() > deadline:
                missing = "result" if self._outputs is None else "webhook"
                raise DemoFailed(f"no {missing} of {self._id} within {WITHIN:g} s")
            self._check()
            posted = self._inbox.take(POLL)
            if posted is not None:
                self._receive(posted)
            if self._outputs is None:
                self._look()
        if self._delivered != self._outputs:
            raise DemoFailed(f"the webhook has {self._delivered}, the API has {self._outputs}")

    def _submit(self) -> None:
        image = IMAGE.read_bytes()
        self._submitted = time.monotonic()
        self._tell("submitting", f"{IMAGE.name} ({len(image)} bytes) to the model {MODEL}")
        encoded = base64.b64encode(image).decode()
        job = self._api.submit(
            {
                "model": MODEL,
                "inputs": {"image": {"base64": encoded}},
                "webhook": {"url": f"{self._inbox.url}/webhook", "events": EVENTS},
            }
        )
        self._id, self.trace = job["id"], job["trace_id"]
        self._tell("accepted", f"202, {self._id}")
        self._tell(job["status"], f"trace {self.trace}")

    def _look(self) -> None:
        job = self._api.find(self._id)
        if job["status"] == "processing":
            self._note_running("seen by polling")
        if job["status"] not in ENDED:
            return
        if job["status"] != "succeeded":
            raise DemoFailed(f"{self._id} {job['status']}: {job['error']}")
        outputs = {output["name"]: output["data"] for output in job["outputs"]}
        self._tell("result", f"succeeded, inference {job['metrics']['inference_ms']} ms")
        for line, score in zip(outputs["text"], outputs["scores"], strict=True):
            self._tell("", f'"{line}" (score {score:.3f})')
        if outputs["text"] != TEXT:
            raise DemoFailed(f"the model read {outputs['text']}, the image has {TEXT}")
        self._outputs = job["outputs"]

    def _receive(self, posted: Posted) -> None:
        try:
            event = self._verifier.verify(posted.body, posted.headers)
        except WebhookVerificationError as error:
            raise DemoFailed(f"a webhook has a wrong signature: {error}; its headers: {posted.headers}") from error
        job, kind = event["data"], event["type"]
        if job["id"] != self._id or kind not in EVENTS:
            raise DemoFailed(f"an unexpected webhook: {kind} of {job['id']}")
        if kind == "job.started":
            self._note_running("by the webhook job.started", posted.at)
        message_id = posted.headers["webhook-id"]
        self.webhooks.add(message_id)
        self._tell("webhook", f"{kind}, webhook-id {message_id}", posted.at)
        self._tell("verified", "standardwebhooks.Webhook.verify: the signature is correct")
        if kind != "job.started":
            self._delivered = job["outputs"]

    def _note_running(self, how: str, at: float | None = None) -> None:
        if not self._running:
            self._running = True
            self._tell("running", how, at)

    def _tell(self, step: str, text: str, at: float | None = None) -> None:
        self._tell_at(((at or time.monotonic()) - self._submitted) * 1000, step, text)
