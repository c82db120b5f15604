"""Runs a private stack on this machine, and makes keys and loads models of a stack that runs."""

import argparse
import os
import signal
import sys
import time
from types import FrameType

from deploy.local.commands import make_key, reload_model, restart_parts, run_service
from deploy.local.errors import LocalError
from deploy.local.example import make_example
from deploy.local.install import find_steps, run_steps
from deploy.local.installation import command_for
from deploy.local.restarts import SCHEMA, Requests, SourceWatch
from deploy.local.running import find_running
from deploy.local.settings import ROOT, Settings
from deploy.local.stack import Stack
from deploy.local.supervisor import Supervisor
from deploy.local.terminal import say, show

WATCH_SECONDS = 0.5

READY = """
Charonia is ready.

  console  {url}/console
  API      {url}
  docs     {url}/docs
  key      {key} (for development; `{make_key}` makes others)
  models   {models}
  metrics  {metrics}
  logs     {logs}
{problems}
Try it in another terminal:

  {example}

Ctrl-C stops everything.
"""


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # a shell that starts us in the background ignores it
    try:
        settings = Settings.load(os.environ)
        match options.command:
            case "key":
                return make_key(find_running(settings), options.tenant, options.scopes, options.model, options.name)
            case "reload":
                reload_model(find_running(settings), options.model)
            case "restart":
                restart_parts(find_running(settings), options.service)
            case "run":
                run_service(find_running(settings), options.service)
            case _:
                tests, checks = getattr(options, "tests", False), getattr(options, "checks", False)
                run_steps(find_steps(settings, stack=not checks, tests=tests, checks=checks))
                if options.command == "up":
                    up(settings)
    except KeyboardInterrupt:
        say("Stopped.")
    except (LocalError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("up", help="run the stack until it is interrupted")
    preparing = commands.add_parser("prepare", help="install what is missing")
    preparing.add_argument("--tests", action="store_true", help="also install what only tests need")
    preparing.add_argument("--checks", action="store_true", help="install what `make check` needs, and no stack")
    key = commands.add_parser("key", help="make an API key of a tenant of the running stack, and print it")
    key.add_argument("--name", default="", help="what the key is for; `keys list` shows it")
    key.add_argument("tenant", nargs="?", help="name of the tenant; a new one is added")
    key.add_argument("scopes", nargs="*", help="what the key may do: submit, read, admin; default: submit and read")
    key.add_argument("--model", nargs="+", default=[], metavar="PATTERN", help="which models it may run; default: all")
    loading = commands.add_parser("reload", help="load a model of the running stack, again if it is loaded")
    loading.add_argument("model", nargs="?", help="name of the model")
    restarting = commands.add_parser("restart", help="restart a service of the running stack, with the code as it is")
    restarting.add_argument("service", nargs="?", help="gateway, dispatcher or notifier, or a server such as triton")
    running = commands.add_parser("run", help="run a service in this terminal, in a stack that has none of its kind")
    running.add_argument("service", nargs="?", help="gateway, dispatcher or notifier")
    options = parser.parse_args()
    if options.command == "key" and not options.tenant:
        parser.error(f"the tenant is missing: {command_for('key', TENANT='acme')}")
    if options.command == "reload" and not options.model:
        parser.error(f"the model is missing: {command_for('reload', MODEL='ocr')}")
    if options.command in ("restart", "run") and not options.service:
        parser.error(f"the service is missing: {command_for(options.command, SERVICE='gateway')}")
    return options


def up(settings: Settings) -> None:
    """Run the stack until it is interrupted. Start its parts again; raise LocalError if one keeps ending."""
    started = time.monotonic()
    stack = Stack(settings, on_line=show)
    try:
        stack.start()
        say(describe(stack))
        say(f"Started in {time.monotonic() - started:.1f} s.")
        watch_over(stack)
    finally:
        # A second Ctrl-C must not leave servers behind; each stop has its own deadline.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if stack.is_locked:  # else it did not start, or has stopped already
            say("Stopping …")
            stack.stop()


def watch_over(stack: Stack) -> None:
    """Start parts again that end, and restart those that somebody asks for or whose code has changed."""
    parts = {part.name: part for part in (*stack.servers, *stack.services)}
    supervisor, requests = Supervisor([*parts.values()], say), Requests(stack.settings.stack_dir)
    requests.clear()
    sources, schema = SourceWatch(ROOT) if stack.settings.watch else None, SourceWatch(ROOT, SCHEMA)
    waiting: set[str] = set()  # parts to restart once they have started
    begun: set[str] = set()
    while True:
        supervisor.look()
        changed = sources.find_changed() if sources else []
        waiting |= {service.name for service in stack.services if service.kind in changed}
        waiting |= {*requests.take()} & parts.keys() - begun
        if waiting and schema.find_changed():
            migrate_schema(stack)
        starting = {name for name in sorted(waiting) if supervisor.restart(parts[name])}
        waiting, begun = waiting - starting, begun | starting
        for name in sorted(begun - waiting):
            if failure := supervisor.find_failure(parts[name]):
                requests.note_failed(name, failure)
            elif supervisor.is_ready(parts[name]):
                requests.note_done(name)
            else:
                continue
            begun.discard(name)
        time.sleep(WATCH_SECONDS)


def migrate_schema(stack: Stack) -> None:
    """Bring the database to the newest schema, and say why if that fails: the services will not start, either."""
    try:
        stack.migrate()
    except LocalError as error:
        say(f"The database is not migrated: {error}")


def describe(stack: Stack) -> str:
    """Return what a person needs to use the stack."""
    problems = stack.triton.find_problems() if stack.dispatchers else {}
    folders = [stack.settings.model_repository, *stack.settings.more_models]
    key = stack.environment["CHARONIA_BOOTSTRAP_KEY"]
    metrics = [f"{service.url}/metrics ({service.name})" for service in reversed(stack.services)]
    metrics += [f"{stack.triton.metrics_url} (triton)"] if stack.dispatchers else []
    listed = "".join(f"\n  {name}: {reason}" for name, reason in sorted(problems.items()))
    return READY.format(
        url=stack.url,
        key=key,
        make_key=stack.settings.make_call("key", TENANT="…"),
        models=" and ".join(map(str, folders)),
        metrics="\n           ".join(metrics),
        logs=stack.log_dir,
        problems=f"\nThese models are not ready:\n{listed}\n" if problems else "",
        example=make_example(stack.url, key),
    )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
