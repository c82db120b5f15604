"""Watches queues, rates and models, refreshed in place: top."""

import asyncio
import contextlib
from typing import Any, NoReturn

import msgspec
import typer
from rich.live import Live

from charonia import AsyncCharonia, CharoniaError, RateLimited
from charonia.cli.exits import UNREACHABLE, find_exit_code
from charonia.cli.registry import command
from charonia.cli.session import CALL_SECONDS, Session
from charonia.cli.tasks import end_tasks
from charonia.cli.terminal.keyboard import on_key
from charonia.cli.terminal.top_view import MOST_DEAD_LETTERS, Snapshot, TopView, make_rows, make_table, summarize

REFRESH_SECONDS = 2.0
REDRAW_SECONDS = 0.5  # so that a new size of the terminal is seen
OUTAGE_SECONDS = 4.0  # of a refresh until it is given up


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, opens=True, rich_help_panel="Models")(top)


def top(session: Session) -> None:
    """Watch queues, rates and models. q or Ctrl-C ends it.

    Rates are those of the last five minutes. In a pipe, it prints once.
    """
    session.open_page("/")
    if session.as_json or not session.out.is_terminal:
        asyncio.run(print_once(session))
        return
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(watch(session))


async def print_once(session: Session) -> None:
    """Print one snapshot."""
    async with AsyncCharonia(profile=session.profile, timeout=CALL_SECONDS) as client:
        client._transport.keeps_json = session.as_json
        snapshot = await read_snapshot(client)
    if session.as_json:
        session.print_json(to_json(snapshot))
        return
    session.out.print(summarize(snapshot))
    session.out.print(make_table(make_rows(snapshot), snapshot.stats.at, session.out.width))


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the statistics as the API has them, with the models and the number of dead letters."""
    models = [msgspec.Raw(each._json or b"null") for each in snapshot.models]
    stats = msgspec.json.decode(snapshot.stats._json or b"{}", type=dict[str, msgspec.Raw])
    return {**stats, "models": models, "dead_letters": snapshot.dead_letters}


async def read_snapshot(client: AsyncCharonia) -> Snapshot:
    """Read the numbers. Raise CharoniaError."""
    stats = await client.stats()
    models = [each async for each in client.models.list()]
    dead_letters = 0
    async for _ in client.dead_letters.list():
        dead_letters += 1
        if dead_letters == MOST_DEAD_LETTERS:  # those of one page
            break
    return Snapshot(stats=stats, models=models, dead_letters=dead_letters)


async def watch(session: Session) -> None:
    """Show the numbers until a key ends it. Raise CharoniaError if there is no gateway, or it refuses the key."""
    async with AsyncCharonia(profile=session.profile, timeout=OUTAGE_SECONDS) as client:
        view = TopView(client.url, await read_snapshot(client))
        ended = asyncio.Event()
        session.hide_retries()
        with Live(view, console=session.out, screen=True, auto_refresh=False) as live, on_key(b"qQ", ended.set):
            tasks = {asyncio.create_task(refresh(client, view)), asyncio.create_task(ended.wait())}
            try:
                while not (
                    done := (await asyncio.wait(tasks, timeout=REDRAW_SECONDS, return_when="FIRST_COMPLETED"))[0]
                ):
                    live.refresh()
            finally:
                await end_tasks(tasks)
    for each in done:
        each.result()


async def refresh(client: AsyncCharonia, view: TopView) -> NoReturn:
    """Renew the numbers again and again. An outage is shown. Raise CharoniaError if the gateway refuses the key."""
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        try:
            view.show(await read_snapshot(client))
        except CharoniaError as error:
            if find_exit_code(error) != UNREACHABLE and not isinstance(error, RateLimited):
                raise
            view.fail(str(error))
