"""Shows events and their deliveries, a line each."""

from datetime import datetime
from typing import Any

from rich.text import Text

from charonia.cli.listen.fed_events import FedEvent
from charonia.cli.listen.forwarding import Delivery
from charonia.cli.listen.local_receiver import Answer
from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text_line
from charonia.cli.terminal.tables import ID_WIDTH, STYLES, show_ms

TYPE_WIDTH = len("batch.completed")
GAP = "  "


class EventLines:
    """Prints lines. `given_up` counts the events that no receiver took."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_silent = False  # the receiver has answered nothing since this was last shown
        self.given_up = 0

    def show_event(self, event: FedEvent) -> None:
        """Show an event that is not forwarded."""
        if self._session.as_json:
            self._session.print_json(event.to_json())
        else:
            self._print((event.timestamp or datetime.now()).astimezone(), event, describe_subject(event))

    def show_delivery(self, delivery: Delivery, answer: Answer, is_given_up: bool) -> None:
        """Show a try: the one that was accepted, the first one that failed, and the last one."""
        self.given_up += is_given_up
        is_new = delivery.tries == 1 and not (self._is_silent and answer.status_code is None)
        self._is_silent = answer.status_code is None and (self._is_silent or is_new)
        if not (answer.error is None or is_given_up or is_new):
            return
        if self._session.as_json:
            self._session.print_json(to_json(delivery, answer, is_given_up))
        else:
            self._print(datetime.now().astimezone(), delivery.event, describe_answer(delivery, answer, is_given_up))

    def _print(self, time: datetime, event: FedEvent, tail: Text) -> None:
        status = event.type.partition(".")[2]
        kind = show_text_line(event.type.ljust(TYPE_WIDTH), STYLES.get(status, ""))
        subject = (event.subject.id or event.id).ljust(ID_WIDTH)
        line = Text(GAP).join([Text(time.strftime("%H:%M:%S"), "dim"), kind, show_text_line(subject), tail])
        self._session.out.print(line, no_wrap=True, overflow="ellipsis", crop=self._session.out.is_terminal)


def describe_subject(event: FedEvent) -> Text:
    """Return what an event says about its subject."""
    subject = event.subject
    counts = [(f"{count} {status}", STYLES.get(status, "")) for status, count in subject.counts.items() if count]
    parts = [show_text_line(subject.model or subject.url or "")] if subject.model or subject.url else []
    parts += [show_text_line(*each) for each in counts]
    if subject.error is not None:
        parts.append(show_text_line(f"{subject.error.code}: {subject.error.message}", "red"))
    return Text(GAP).join(parts)


def describe_answer(delivery: Delivery, answer: Answer, is_given_up: bool) -> Text:
    """Return what became of a try."""
    if answer.error is None:
        number = f"{GAP}try {delivery.tries}" if delivery.tries > 1 else ""
        return Text.assemble((f"{answer.status_code}", "green"), f"{GAP}{show_ms(answer.ms):>6}{number}")
    end = "given up" if is_given_up else "retrying"
    return show_text_line(f"{answer.error}, {end}", "red")


def explain_refusal(answer: Answer, secret: str) -> str | None:
    """Return what to do about an answer that other servers give to each webhook. `secret` says which one signs."""
    if answer.status_code == 401:
        return f"401: the server verifies with another secret. Give it {secret}, or sign with its own: --secret whsec_…"
    if answer.status_code == 403:
        return "403: the server refuses the request before it verifies it. Exempt its path from CSRF and login checks"
    return None


def to_json(delivery: Delivery, answer: Answer, is_given_up: bool) -> dict[str, Any]:
    """Return a try for JSON."""
    event = delivery.event
    return {
        "id": event.id,
        "position": event.position,
        "type": event.type,
        "subject": event.subject.id,
        "tries": delivery.tries,
        "status_code": answer.status_code,
        "error": answer.error,
        "ms": round(answer.ms, 1),
        "given_up": is_given_up,
    }
