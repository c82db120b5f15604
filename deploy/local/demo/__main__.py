"""`python -m deploy.local.demo` runs an image of text through its own stack, up to a verified webhook.

Then it does the same with a pipeline of two models.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import httpx
from charonia import Charonia

from deploy.local.demo.collector import ENDPOINTS, Collector, has_triton, is_chosen
from deploy.local.demo.inbox import Inbox
from deploy.local.demo.job import Job
from deploy.local.demo.pipeline import run_pipeline
from deploy.local.demo.spans import draw
from deploy.local.demo.stage import keep_quiet, run_demo, run_stack, tell
from deploy.local.example import make_example
from deploy.local.settings import Settings
from deploy.local.terminal import say

CALL_SECONDS = 10.0
JOBS = 3  # at most, until one has spans of Triton

NEXT = """
Next: `{up}` keeps the stack running. Then try in another terminal:

  {command}

{url}/docs has all operations.
"""


def demonstrate(settings: Settings) -> None:
    """Start the stack, show a job, its trace and a pipeline, stop the stack. Raise LocalError if anything is wrong."""
    with ExitStack() as stopping:
        receiver, exports = stopping.enter_context(Inbox()), stopping.enter_context(Inbox())
        collector = None if is_chosen(settings.environment) else Collector(exports)
        if collector is not None:
            settings = replace(settings, environment=collector.environment(settings.environment))
        stack = stopping.enter_context(run_stack(settings))
        key = stack.environment["CHARONIA_BOOTSTRAP_KEY"]
        http = stopping.enter_context(httpx.Client(trust_env=False))  # a proxy does not reach this machine
        client = Charonia(stack.url, key, timeout=CALL_SECONDS, http=http)
        say("\n One job:\n")
        job = Job(client, receiver, stack.check, tell)
        job.run()
        if collector is None:
            endpoint = next(filter(None, map(settings.environment.get, ENDPOINTS)))
            say(f"\n The spans of trace {job.trace} went to {endpoint}.")
        else:
            _show_trace(collector, job, lambda: Job(client, receiver, stack.check, keep_quiet), stack.check)
        say("\n One pipeline:\n")
        run_pipeline(client, receiver, stack.check, tell)
        say(NEXT.format(up=settings.make_call("up"), url=stack.url, command=make_example(stack.url, key)))


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


if __name__ == "__main__":
    sys.exit(run_demo(demonstrate))
