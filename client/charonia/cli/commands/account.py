"""What the tenant used, and who changed what: usage and audit."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

import typer

from charonia.admin_schemas import AuditEntry, UsageData
from charonia.cli import options
from charonia.cli.registry import command
from charonia.cli.session import Session
from charonia.cli.terminal.tables import make_table, print_list, show_age, show_bytes, show_seconds

SinceDay = Annotated[str, typer.Option(metavar="DAY", help="From this day on: 30d or 2026-12-01 (UTC).")]
UntilDay = Annotated[options.Time, typer.Option(metavar="DAY", help="Before this day, such as 2027-01-01 (UTC).")]
ActionFilter = Annotated[options.Text, typer.Option(help="Only this change, such as key.created.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Account")(usage)
    command(app, rich_help_panel="Account")(audit)


def usage(session: Session, since: SinceDay = "30d", until: UntilDay = None, model: options.ModelFilter = None) -> None:
    """Show what you used by day and model, newest day first."""
    days = {"since": options.read_day("--since", since), "until": options.read_day("--until", until)}
    columns = ["DAY", "MODEL", "OK", "FAILED", "OTHER", "REUSED", "INFERENCE", "IN", "OUT", "TOKENS"]
    table = make_table(columns, right=columns[2:], flexible=["MODEL"])
    print_list(session, session.client.usage(model=model, **days), table, show_usage, "no jobs ended in this time")


def show_usage(used: UsageData) -> Sequence[str]:
    jobs = used.jobs
    shown = [jobs.get(status, 0) for status in ("succeeded", "failed", "reused")]
    other = sum(jobs.values()) - sum(shown)
    return (
        str(used.day),
        used.model,
        f"{shown[0]:,}",
        f"{shown[1]:,}",
        f"{other:,}",
        f"{shown[2]:,}",
        show_inference(used.inference_seconds),
        show_bytes(used.bytes_in),
        show_bytes(used.bytes_out),
        show_tokens(used.prompt_tokens, used.completion_tokens),
    )


def show_tokens(prompt: int, completion: int) -> str:
    """Return the tokens of prompts and answers, such as `120 + 3,400`, or nothing without any."""
    return f"{prompt:,} + {completion:,}" if prompt or completion else ""


def show_inference(seconds: float) -> str:
    """Return a sum of durations, such as `1.2 s` or `3h`."""
    return f"{seconds:.1f} s" if seconds < 60 else show_seconds(seconds)


def audit(
    session: Session, since: options.Since = None, action: ActionFilter = None, limit: options.Limit = 20
) -> None:
    """List changes to keys, webhooks, secrets and limits, newest first. `--json` shows what changed."""
    found = session.client.audit_log(since=options.read_time("--since", since), action=action)
    table = make_table(["AGE", "ACTION", "TARGET", "BY"], right=["AGE"], flexible=["BY"])
    print_list(session, islice(found, limit or None), table, show_entry, "no changes")


def show_entry(entry: AuditEntry) -> Sequence[str]:
    return show_age(entry.at), entry.action, entry.target, entry.actor
