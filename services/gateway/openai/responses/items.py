"""The messages of a request, and pages of them. Pure."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from services.gateway.openai.responses.schemas import Input, InputMessage, TextPart
from services.gateway.openai.responses.views import InputItem, InputItemList

Order = Literal["asc", "desc"]


class UnknownItem(Exception):
    """A page is to begin after an item that the request does not have."""


class Recorded(msgspec.Struct, frozen=True):
    """What later requests need of a request that was accepted. A later release may have accepted more."""

    input: Input
    previous_response_id: str | None = None


class Turn(NamedTuple):
    """A response that a conversation continues: the body of its request, and its answer."""

    body: bytes
    text: str


def list_messages(given: str | Sequence[InputMessage]) -> list[InputMessage]:
    """Return the messages of an `input`."""
    return [InputMessage("user", given)] if isinstance(given, str) else list(given)


def read_turns(turns: Sequence[Turn]) -> list[InputMessage]:
    """Return the messages of responses, oldest first. Raises msgspec.ValidationError for one of a later release."""
    messages = []
    for turn in turns:
        messages += list_messages(msgspec.json.decode(turn.body, type=Recorded).input)
        messages.append(InputMessage("assistant", turn.text))
    return messages


def page_items(response: str, body: bytes, after: str | None, limit: int, order: Order) -> InputItemList:
    """Return a page of a request's messages. `response` are the letters of the response's id.

    Raises UnknownItem, and msgspec.ValidationError for a request of a later release.
    """
    messages = list_messages(msgspec.json.decode(body, type=Recorded).input)
    found = [to_item(f"{response}_{number}", message) for number, message in enumerate(messages)]
    if order == "desc":
        found.reverse()
    ids = [item.id for item in found]
    if after is not None and after not in ids:
        raise UnknownItem
    begin = 0 if after is None else ids.index(after) + 1
    page = found[begin : begin + limit]
    return InputItemList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=begin + limit < len(found),
    )


def to_item(item_id: str, message: InputMessage) -> InputItem:
    kind: Literal["input_text", "output_text"] = "output_text" if message.role == "assistant" else "input_text"
    parts = [TextPart(kind, message.content)] if isinstance(message.content, str) else message.content
    return InputItem(id=item_id, role=message.role, content=[write_part(part) for part in parts])


def write_part(part: TextPart) -> dict[str, Any]:
    """Return a part as OpenAI has it; the text of an answer has lists beside it."""
    lists: dict[str, Any] = {"annotations": [], "logprobs": []} if part.type == "output_text" else {}
    return {"type": part.type, "text": part.text, **lists}
