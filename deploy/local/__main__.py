"""`python -m deploy.local up` runs the stack until it is interrupted; `prepare` only installs what is missing."""

import argparse
import os
import signal
import sys
import time
from types import FrameType

from deploy.local.errors import LocalError
from deploy.local.install import find_steps, run_steps
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from deploy.local.terminal import say, show

WATCH_SECONDS = 0.5

READY = """
Charonia is ready.

  API   {url}
  docs  {url}/docs
  key   {key} (for development)
  logs  {logs}

Try it:

  curl -s {url}/v1/jobs -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
    -d '{example}'

Ctrl-C stops everything.
"""
EXAMPLE = '{"model": "echo", "inputs": {"x": [[1, 2, 3]]}}'


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    parser.add_argument("command", choices=["up", "prepare"])
    parser.add_argument("--tests", action="store_true", help="prepare: also install what only tests need")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # a shell that starts us in the background ignores it
    try:
        settings = Settings.load(os.environ)
        run_steps(find_steps(settings, tests=options.tests))
        if options.command == "up":
            up(settings)
    except KeyboardInterrupt:
        say("Stopped.")
    except LocalError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def up(settings: Settings) -> None:
    """Run the stack until it is interrupted; raise LocalError if a part of it ends by itself."""
    started = time.monotonic()
    stack = Stack(settings, on_line=show)
    try:
        stack.start()
        say(READY.format(url=stack.url, key=DEVELOPMENT_KEY, logs=stack.log_dir, example=EXAMPLE))
        say(f"Started in {time.monotonic() - started:.1f} s.")
        while True:
            stack.check()
            time.sleep(WATCH_SECONDS)
    finally:
        # A second Ctrl-C must not leave servers behind; each stop has its own deadline.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("Stopping …")
        stack.stop()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
