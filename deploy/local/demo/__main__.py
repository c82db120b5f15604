"""`python -m deploy.local.demo` runs an image of text through its own stack, up to a verified webhook.

Then it does the same with a pipeline of two models.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import FrameType

import httpx
from charonia import Charonia, CharoniaError

from deploy.local.demo.collector import ENDPOINTS, Collector, has_triton, is_chosen
from deploy.local.demo.inbox import Inbox
from deploy.local.demo.job import Job
from deploy.local.demo.pipeline import run_pipeline
from deploy.local.demo.spans import draw
from deploy.local.errors import LocalError
from deploy.local.example import make_example
from deploy.local.install import find_steps, run_steps
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from deploy.local.terminal import say

CALL_SECONDS = 10.0
JOBS = 3  # at most, until one has spans of Triton

NEXT = """
Next: `{up}` keeps the stack running. Then try in another terminal:

  {command}

{url}/docs has all operations.
"""


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # a shell that starts us in the background ignores it
    started = time.monotonic()
    try:
        settings = Settings.load(os.environ)
        run_steps(find_steps(settings))
        demonstrate(settings)
    except KeyboardInterrupt as interrupt:
        say("Stopped.")
        return 128 + int(interrupt.args[0])
    except (LocalError, CharoniaError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    say(f"The demo took {time.monotonic() - started:.1f} s, including the start and stop of the stack.")
    return 0


def demonstrate(settings: Settings) -> None:
    """Start the stack, show a job, its trace and a pipeline, stop the stack. Raise LocalError if anything is wrong."""
    with ExitStack() as stopping:
        receiver, exports = stopping.enter_context(Inbox()), stopping.enter_context(Inbox())
        collector = None if is_chosen(settings.environment) else Collector(exports)
        if collector is not None:
            settings = replace(settings, environment=collector.environment(settings.environment))
        stack = Stack(settings)
        stopping.callback(_stop, stack)
        _start(stack)
        key = stack.environment["CHARONIA_BOOTSTRAP_KEY"]
        http = stopping.enter_context(httpx.Client(trust_env=False))  # a proxy does not reach this machine
        client = Charonia(stack.url, key, timeout=CALL_SECONDS, http=http)
        say("\n One job:\n")
        job = Job(client, receiver, stack.check, _tell)
        job.run()
        if collector is None:
            endpoint = next(filter(None, map(settings.environment.get, ENDPOINTS)))
            say(f"\n The spans of trace {job.trace} went to {endpoint}.")
        else:
            _show_trace(collector, job, lambda: Job(client, receiver, stack.check, _keep_quiet), stack.check)
        say("\n One pipeline:\n")
        run_pipeline(client, receiver, stack.check, _tell)
        say(NEXT.format(up=settings.make_call("up"), url=stack.url, command=make_example(stack.url, key)))


def _start(stack: Stack) -> None:
    started = time.monotonic()
    say(f"Starting PostgreSQL, RabbitMQ, Triton and Charonia's services; their logs are in {stack.log_dir}.")
    stack.start()
    say(f"Ready after {time.monotonic() - started:.1f} s.")


def _stop(stack: Stack) -> None:
    # A second Ctrl-C must not leave servers behind; each stop has its own deadline.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if stack.is_locked:  # else it did not start, or has stopped already
        say("Stopping …")
        stack.stop()


def _show_trace(collector: Collector, job: Job, make_job: Callable[[], Job], check: Callable[[], None]) -> None:
    """Print the tree of the job's spans; if those of Triton are missing, run other jobs to show them."""
    say(f"\n Waiting for the spans of trace {job.trace}; Triton exports them every 5 s.")
    spans = collector.gather(job.trace, len(job.webhooks), check)
    for _ in range(JOBS - 1):
        if has_triton(spans):
            break
        say(" Triton's spans are missing: this version ignores 1 to 10 % of traceparents. Running another job …")
        job = make_job()
        job.run()
        spans = collector.gather(job.trace, len(job.webhooks), check)
    say(f"\n Trace {job.trace}:\n")
    for line in draw(spans):
        say(f" {line}")
    if not has_triton(spans):
        say(f" Triton's spans are missing in all of {JOBS} traces.")


def _tell(milliseconds: float, step: str, text: str) -> None:
    say(f"{milliseconds:>8.0f} ms  {step:<11} {text}" if step else f"{'':>24}{text}")


def _keep_quiet(milliseconds: float, step: str, text: str) -> None:
    pass


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    sys.exit(main())
