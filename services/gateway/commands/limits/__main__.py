"""Limit and pause models and tenants: `python -m services.gateway.commands.limits model | tenant`.

It reads the gateway's settings. A change takes effect on every dispatcher after about a second. Jobs that run go on.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from common.errors import CharoniaError
from common.settings import load
from common.views.job import format_time
from services.gateway.commands.keys import KeySettings, connect, read_count, read_name
from services.gateway.commands.limits.store import LimitStore, SetLimits
from services.gateway.jobs.queue_limits.limits import MAX_LIMIT

NONE = "none"


async def set_model(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Set the limits of a model that are given, and return all of them."""
    async with connect(settings) as database:
        store = LimitStore(database)
        await store.change_model(arguments.model, partial(apply_arguments, arguments))
        now = await store.find_model(arguments.model)
    unknown = "" if now.known else " (no Triton has this model now)"
    limits = f"max running {now.max_running or NONE}, of one tenant {now.max_running_per_tenant or NONE}"
    return f"{arguments.model}: {limits}, {describe_pause(now.paused_at)}{unknown}"


async def set_tenant(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Set what is given for a tenant, and return what is set. Raises CharoniaError for an unknown tenant."""
    async with connect(settings) as database:
        store = LimitStore(database)
        found = await store.find_tenant(arguments.tenant)
        if found is None:
            raise CharoniaError(f"tenant '{arguments.tenant}' not found; `keys create` adds one")
        if arguments.paused is not None:
            await store.pause_tenant(found.id, paused=arguments.paused)
        if arguments.retention is not None:
            await store.set_retention(found.id, choose(arguments.retention, None))
        found = await store.find_tenant(arguments.tenant) or found
    retention = NONE if found.retention is None else f"{found.retention:g} s"
    return f"{arguments.tenant}: {describe_pause(found.paused_at)}, retention {retention}"


def apply_arguments(arguments: argparse.Namespace, now: SetLimits) -> SetLimits:
    """Return the limits of a model with those replaced that are given."""
    return SetLimits(
        choose(arguments.max_running, now.max_running),
        choose(arguments.max_running_per_tenant, now.max_running_per_tenant),
        now.paused if arguments.paused is None else arguments.paused,
    )


def choose(wanted: int | str | None, now: int | None) -> int | None:
    """Return the new limit: the current one if none is given."""
    if wanted is None:
        return now
    return None if isinstance(wanted, str) else wanted


def describe_pause(paused_at: datetime | None) -> str:
    return "not paused" if paused_at is None else f"paused since {format_time(paused_at)}"


def read_limit(text: str) -> int | str:
    if text == NONE:
        return text
    if text == "0":
        raise argparse.ArgumentTypeError(f"0 is too small; use 1 or more, or '{NONE}'")
    return read_count(MAX_LIMIT)(text)


def add_pause(parser: argparse.ArgumentParser) -> None:
    """Add the options that pause and resume."""
    pausing = parser.add_mutually_exclusive_group()
    pausing.add_argument("--pause", dest="paused", action="store_true", default=None, help="start no more jobs")
    pausing.add_argument("--resume", dest="paused", action="store_false", default=None, help="start jobs again")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    description = "Limit and pause models and tenants. Without options, show what is set."
    parser = argparse.ArgumentParser(prog="python -m services.gateway.commands.limits", description=description)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    model = commands.add_parser("model", help="show or set the limits of a model")
    model.add_argument("model", type=read_name, help="name of the model")
    running_help = f"most jobs that run at a time, over all dispatchers, or '{NONE}'"
    model.add_argument("--max-running", type=read_limit, metavar="N", help=running_help)
    tenant_help = f"most jobs of one tenant that run at a time, or '{NONE}'"
    model.add_argument("--max-running-per-tenant", type=read_limit, metavar="N", help=tenant_help)
    add_pause(model)
    model.set_defaults(run=set_model)
    tenant = commands.add_parser("tenant", help="show, pause or resume a tenant, or set its retention")
    tenant.add_argument("tenant", type=read_name, help="name of the tenant")
    retention_help = f"seconds its ended jobs are kept at most, or '{NONE}' for the dispatchers' setting"
    tenant.add_argument("--retention", type=read_limit, metavar="SECONDS", help=retention_help)
    add_pause(tenant)
    tenant.set_defaults(run=set_tenant)
    return parser.parse_args(arguments)


def main() -> int:
    """Return the exit code: 0 on success, 2 for wrong arguments or settings, else that of the error."""
    arguments = parse()
    try:
        print(asyncio.run(arguments.run(load(KeySettings), arguments)))
    except CharoniaError as error:
        print(f"limits: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
