"""What was sent to receivers: deliveries, delivery, redeliver and recover."""

import shlex
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal, Optional

import typer
from rich.text import Text

from charonia import CharoniaError, DeadlineExceeded
from charonia.admin_schemas import DeliveryAttempt, DeliveryData, Recovery
from charonia.calls import Deadline
from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.changes import for_each
from charonia.cli.exits import limit_wait
from charonia.cli.registry import command
from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text_line
from charonia.cli.terminal.tables import (
    NOTHING,
    Cell,
    add_row,
    count,
    make_table,
    print_fields,
    print_list,
    show_age,
    show_ms,
    show_status,
    show_time,
)
from charonia.requests import DEFAULT_WAIT

POLL_SECONDS = 1.0
Status = Literal["pending", "succeeded", "exhausted", "canceled"]

WebhookFilter = Annotated[options.Text, typer.Option("--webhook", metavar="WEBHOOK", help="Those of this webhook.")]
JobFilter = Annotated[options.Text, typer.Option("--job", metavar="JOB", help="Those of this job.")]
StatusFilter = Annotated[Optional[Status], typer.Option(help="Only deliveries in this state.")]  # noqa: UP045
DeliveryId = Annotated[str, typer.Argument(metavar="DELIVERY", help="The id of a delivery.")]
DeliveryIds = Annotated[list[str], typer.Argument(metavar="DELIVERY...", help="The ids of deliveries.")]
From = Annotated[str, typer.Option("--since", metavar="TIME", help="From when on: 15m, 2h, 7d or a time.")]
Until = Annotated[options.Time, typer.Option(metavar="TIME", help="Until when; by default until now.")]
Timeout = Annotated[float, typer.Option(min=0.001, help="How many seconds to wait; the recovery then goes on.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "deliveries", opens=True, rich_help_panel="Webhooks")(list_deliveries)
    command(app, "delivery", opens=True, rich_help_panel="Webhooks")(show_delivery)
    command(app, rich_help_panel="Webhooks")(redeliver)
    command(app, opens=True, rich_help_panel="Webhooks")(recover)


def list_deliveries(
    session: Session,
    webhook: WebhookFilter = None,
    job: JobFilter = None,
    status: StatusFilter = None,
    limit: options.Limit = 20,
) -> None:
    """List the deliveries of a webhook or a job, newest first."""
    if (webhook is None) == (job is None):
        raise InvalidArgument("whose deliveries? Add --webhook WEBHOOK or --job JOB, one of the two")
    found = find_deliveries(session, webhook, job or "", status)
    columns = ["ID", "STATUS", "EVENT", "AGE", "TRIES", "ANSWER"]
    table = make_table(columns, right=["AGE", "TRIES"], flexible=["EVENT", "ANSWER"])
    print_list(session, islice(found, limit or None), table, show_row, "no deliveries")
    session.open_page(make_path(webhook, job))


def find_deliveries(session: Session, webhook: str | None, job: str, status: Status | None) -> Iterator[DeliveryData]:
    """Return the deliveries of a webhook, or else of a job."""
    if webhook is not None:
        return session.client.webhooks.deliveries(webhook, status=status)
    all_of_job = session.client.jobs.get(job).deliveries()
    return (each for each in all_of_job if status in (None, each.status))


def show_row(delivery: DeliveryData) -> Sequence[Cell]:
    attempts = delivery.attempts
    return (
        delivery.id,
        show_status(delivery.status),
        delivery.event_type,
        show_age(delivery.created_at),
        str(attempts[-1].number) if attempts else "0",
        show_answer(attempts[-1]) if attempts else NOTHING,
    )


def show_answer(attempt: DeliveryAttempt) -> Text:
    """Return the status code of an answer, or why there is none."""
    code = attempt.error and attempt.error.code
    parts = [str(each) for each in (attempt.status_code, code) if each is not None]
    return show_text_line(" ".join(parts) or NOTHING, "red" if code else "green")


def show_delivery(session: Session, delivery: DeliveryId) -> None:
    """Show a delivery with each attempt."""
    found = session.client.deliveries.get(delivery)
    if session.as_json:
        session.print_json(found)
    else:
        print_delivery(session, found)
    session.open_page(make_path(found.webhook_id, found.job_id))


def print_delivery(session: Session, found: DeliveryData) -> None:
    """Print a delivery for people, with its attempts in a table."""
    fields: list[tuple[str, Cell | None]] = [
        ("id", found.id),
        ("status", show_status(found.status)),
        ("event", f"{found.event_type} {found.event_id}"),
        ("job", found.job_id),
        ("webhook", found.webhook_id),
        ("url", found.url),
        ("created", show_time(found.created_at)),
        ("next attempt", None if found.next_attempt_at is None else show_time(found.next_attempt_at)),
        ("ended", None if found.finished_at is None else show_time(found.finished_at)),
    ]
    print_fields(session, fields)
    table = make_table(
        ["TRY", "AT", "TOOK", "ANSWER", "RESPONSE"], right=["TRY", "TOOK"], flexible=["ANSWER", "RESPONSE"]
    )
    for each in found.attempts:
        response = " ".join(each.response.split()) or NOTHING
        took = show_ms(each.duration_ms)
        add_row(table, (str(each.number), show_time(each.started_at), took, show_answer(each), response))
    if found.attempts:
        session.out.print()
        session.out.print(table)


def make_path(webhook: str | None, job: str | None) -> str:
    """Return the path of the console's page with the deliveries of a webhook, or else of a job."""
    return f"/jobs/{job}" if webhook is None else f"/webhooks/{webhook}"


def redeliver(session: Session, deliveries: DeliveryIds) -> None:
    """Send deliveries again now. The receiver sees the same ids."""
    for_each(session, deliveries, session.client.deliveries.redeliver, lambda data: show_status(data.status))


def recover(
    session: Session,
    webhook: options.WebhookId,
    since: From,
    until: Until = None,
    timeout: Timeout = DEFAULT_WAIT,
) -> None:
    """Send again what failed to reach a webhook, oldest first, and wait for it.

    For example: `charonia recover whk_… --since 2h`. Ctrl-C leaves it running.
    """
    start, end = options.read_time("--since", since), options.read_time("--until", until)
    if start is None:
        raise InvalidArgument("--since is empty; write an age such as 2h, or a time")
    recovery = session.client.webhooks.recover(webhook, since=start, until=end)
    session.open_page(make_path(webhook, None))
    try:
        with limit_wait(timeout) as deadline:
            recovery = wait_for_end(session, recovery, deadline)
    except (KeyboardInterrupt, CharoniaError):
        session.note(f"\nthe recovery goes on; look at it: charonia deliveries --webhook {shlex.quote(webhook)}")
        raise
    if session.as_json:
        session.print_json(recovery)
    else:
        session.out.print(describe(recovery))


def wait_for_end(session: Session, recovery: Recovery, deadline: Deadline) -> Recovery:
    """Show the progress of a recovery until its end, and return it. Raise DeadlineExceeded."""
    with session.err.status(show_text_line(describe(recovery))) as status:
        while recovery.status != "completed":
            if not deadline.left:
                seconds = f"{deadline.seconds:g} s"
                raise DeadlineExceeded(f"the recovery {recovery.id} runs after {seconds}; {describe(recovery)}")
            time.sleep(min(POLL_SECONDS, deadline.left))
            recovery = session.client.webhooks.get_recovery(recovery.webhook_id, recovery.id)
            status.update(show_text_line(describe(recovery)))
    return recovery


def describe(recovery: Recovery) -> str:
    """Return the progress of a recovery in a line."""
    verb = "queued" if recovery.status == "completed" else "queueing:"
    return f"{verb} {count(recovery.recovered, 'delivery', 'deliveries')} of {recovery.webhook_id} again"
