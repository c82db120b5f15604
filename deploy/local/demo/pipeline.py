"""Runs a pipeline from its definition to the verified webhook with the outputs of both its steps."""

import time
from collections.abc import Callable
from typing import Any

import charonia

from deploy.local.demo.errors import DemoFailed
from deploy.local.demo.inbox import Inbox
from deploy.local.demo.job import IMAGE, POLL, TEXT, WITHIN, Teller

NAME = "read-lines"
DEFINITION: dict[str, Any] = {
    "inputs": {"image": {"datatype": "BYTES", "shape": [1]}},
    "steps": {
        "read": {"model": "ocr", "inputs": {"image": "$inputs.image"}},
        "lines": {"model": "words", "inputs": {"text": "$read.text"}, "for_each": "text"},
    },
    "outputs": {"text": "$read.text", "words": "$lines.count"},
}
COUNTS = [len(set(line.lower().split())) for line in TEXT]


def run_pipeline(client: charonia.Charonia, inbox: Inbox, check: Callable[[], None], tell: Teller) -> None:
    """Store the pipeline, run it, and report each step. Raise DemoFailed or CharoniaError if anything is wrong.

    `check` raises if a process of the stack has ended.
    """
    client.pipelines.put(NAME, DEFINITION)
    started = time.monotonic()

    def say(step: str, text: str) -> None:
        tell((time.monotonic() - started) * 1000, step, text)

    say("submitting", f"{IMAGE.name} to the pipeline {NAME}: ocr, then words for each line")
    run = client.submit(NAME, image=IMAGE, webhook=f"{inbox.url}/webhook")
    say("accepted", f"202, {run.id}")
    for event in run.events(timeout=WITHIN):
        if isinstance(event, charonia.StepEvent):
            say("step", describe(event))
    delivered = wait_for_webhook(client, inbox, check, run.id)
    say("webhook", f"{delivered.type}, webhook-id {delivered.id}, verified")
    result = run.result(WITHIN)
    if delivered.data.outputs != run.data.outputs:
        raise DemoFailed(f"the webhook has {delivered.data.outputs}, the API has {run.data.outputs}")
    for line, words in zip(result["text"], result["words"], strict=True):
        tell(0, "", f'"{line}" has {words} words')
    if (result["text"], result["words"]) != (TEXT, COUNTS):
        raise DemoFailed(f"the run made {result['text']} and {result['words']}, the image has {TEXT}")


def describe(event: charonia.StepEvent) -> str:
    """Return what happened to a step."""
    what = event.type.partition(".")[2]
    if event.data.total is None:
        return f"{event.data.step}: {event.data.job} {what}"
    return f"{event.data.step} {what}, {event.data.total} job{'s' if event.data.total > 1 else ''}"


def wait_for_webhook(client: charonia.Charonia, inbox: Inbox, check: Callable[[], None], run: str) -> charonia.JobEvent:
    """Return the webhook of a run, verified. Those of other jobs may arrive again. Raise DemoFailed without one."""
    secret = client.webhooks.get_secret().secret
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        check()
        posted = inbox.take(POLL)
        event = None if posted is None else charonia.verify(posted.body, posted.headers, secret)
        if isinstance(event, charonia.JobEvent) and event.data.id == run:
            return event
    raise DemoFailed(f"no webhook of {run} within {WITHIN:g} s")
