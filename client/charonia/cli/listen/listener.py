"""Follows the feed of all events, and hands each to a printer or to a local server."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from charonia import AsyncCharonia, Forbidden
from charonia.cli.listen.event_lines import EventLines, explain_refusal
from charonia.cli.listen.fed_events import FedEvent, Progress, read_fed
from charonia.cli.listen.forwarding import CONCURRENCY, Delivery, Forwarding
from charonia.cli.listen.local_receiver import Answer, LocalReceiver
from charonia.cli.session import CALL_SECONDS, Session
from charonia.cli.tasks import end_tasks
from charonia.webhook_signatures import new_secret

Take = Callable[[FedEvent], Awaitable[None]]


class Listener:
    """One run of `listen`. `progress` says where the next one goes on."""

    def __init__(self, session: Session, types: Sequence[str] | None, after: str | None) -> None:
        """`after` is a position, or `oldest`. None is that of the last event until now."""
        self.progress = Progress(after)
        self.lines = EventLines(session)
        self._session = session
        self._types = types
        self._greeting = ["listening; Ctrl-C ends it"]  # until the gateway has accepted the call
        self._is_connected = False
        self._made_secret: str | None = None
        self._signed_with = "the secret of this run"
        self._explained: set[int | None] = set()  # the answers that were explained

    async def print_all(self) -> None:
        """Print the events, without an end."""
        async with AsyncCharonia(profile=self._session.profile, timeout=CALL_SECONDS) as client:
            await self._find_begin(client)
            await self._follow(client, self._print)

    async def forward_all(self, url: str, secret: str | None, give_up_after: float) -> None:
        """Forward the events to a URL, without an end."""
        async with AsyncCharonia(profile=self._session.profile, timeout=CALL_SECONDS) as client:
            await self._find_begin(client)
            self._greeting = [f"forwarding to {url}; Ctrl-C ends it"]
            secret = await self._find_secret(client) if secret is None else secret
            async with LocalReceiver(url, secret, CONCURRENCY) as receiver:
                forwarding = Forwarding(receiver, give_up_after, self._show, self._finish)
                workers = [forwarding.work() for _ in range(CONCURRENCY)]
                await run_until_one_ends([self._follow(client, forwarding.add), *workers])

    async def _find_secret(self, client: AsyncCharonia) -> str:
        """Return the tenant's secret, or a new one if the key may not read that. The greeting says which."""
        try:
            secret = (await client.webhooks.get_secret()).secret
        except Forbidden:
            self._made_secret = new_secret()
            self._greeting.append("the key may not read your tenant's secret, which needs the scope admin")
            self._greeting.append(f"secret of this run: {self._made_secret}")
            return self._made_secret
        self._signed_with = "what `charonia webhooks secret` prints"
        self._greeting.append(f"signing with your tenant's secret, {self._signed_with}")
        return secret

    async def _find_begin(self, client: AsyncCharonia) -> None:
        if self.progress.position is None:
            self.progress.position = await client.events.find_end(types=self._types)

    async def _follow(self, client: AsyncCharonia, take: Take) -> None:
        messages = client.events._read_messages(self._types, self.progress.position, None, self._note_break)
        async with aclosing(messages):
            async for message in messages:
                self._note_connection()
                if message is not None:
                    event = read_fed(message)
                    self.progress.begin(event.position)
                    await take(event)

    async def _print(self, event: FedEvent) -> None:
        self.lines.show_event(event)
        self._finish(event)

    def _show(self, delivery: Delivery, answer: Answer, is_given_up: bool) -> None:
        self.lines.show_delivery(delivery, answer, is_given_up)
        if answer.status_code not in self._explained and (text := explain_refusal(answer, self._signed_with)):
            self._explained.add(answer.status_code)
            self._session.note(text)

    def _finish(self, event: FedEvent) -> None:
        self.progress.finish(event.position)

    def _note_connection(self) -> None:
        """Say what happens now: once."""
        self._is_connected = True
        for line in self._greeting:
            self._session.note(line)
        self._greeting = []

    def _note_break(self) -> None:
        """Say that the gateway is away: once until it is back."""
        if self._is_connected:
            self._is_connected = False
            self._session.note("the gateway closed the connection; connecting again, no event is lost")

    def note_end(self, command: str, *, needs_secret: bool) -> None:
        """Say with which command to go on, unless it was refused. A secret that the user gave is never printed."""
        position = self.progress.position
        if self._greeting or position is None:
            return
        if self.lines.given_up:
            self._session.note(f"events given up, which the server did not accept: {self.lines.given_up}")
        where = f"--after {shlex.quote(position)}"
        if self._made_secret is not None:  # the start has shown it, so that the next run can sign alike
            where += f" --secret {self._made_secret}"
        if needs_secret:
            self._session.note("to sign alike, give the same --secret again")
        self._session.note(f"go on from here: {command} {where}")


async def run_until_one_ends(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run work that has no end, until an error ends one. Raise the error once all have stopped."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in ended:
            each.result()
    finally:
        await end_tasks(tasks)
