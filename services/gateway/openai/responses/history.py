"""Reads the responses that a request continues: each from its own job, as nothing else is stored of a conversation."""

from http import HTTPStatus

from services.gateway.http.limits.body_limits import find_lease
from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.http.problems import FieldError, Problem
from services.gateway.jobs.store import FoundJob
from services.gateway.openai.calls.submission import Caller
from services.gateway.openai.dependencies import OpenAIServices
from services.gateway.openai.responses.items import Turn
from services.gateway.openai.responses.rendering import read_status
from services.gateway.openai.responses.stored import LONGEST_ID, StoredResponse, find_response, read_answer, unknown

MAX_TURNS = 100  # responses before a request; each is a look into the database


async def read_history(services: OpenAIServices, caller: Caller, previous: str) -> list[Turn]:
    """Return a response and those before it, oldest first. The request holds their bytes.

    Raises Problem: 400 for one that is missing, has no answer, or is one too many; 413 or 503 for too many bytes.
    """
    turns: list[Turn] = []
    following: str | None = previous
    while following is not None:
        if len(turns) == MAX_TURNS:
            text = f"continues more than {MAX_TURNS} responses; send the messages as `input`"
            raise Problem(HTTPStatus.BAD_REQUEST, "conversation_too_long", text, errors=blame(text))
        stored = await find_turn(services, caller, following)
        turns.append(await read_turn(services, caller, stored, following))
        following = stored.echo.previous_response_id
    return turns[::-1]


async def find_turn(services: OpenAIServices, caller: Caller, response_id: str) -> StoredResponse:
    async def hold(found: FoundJob) -> None:
        find_lease(caller.scope).grow((found.request_size or 0) + (found.outputs_size or 0))

    stored = await find_response(services, caller, response_id, hold)
    if stored is None:
        text = f"{unknown(response_id).detail}; send the messages as `input`"
        raise Problem(HTTPStatus.BAD_REQUEST, "previous_response_not_found", text, errors=blame(text))
    return stored


async def read_turn(services: OpenAIServices, caller: Caller, stored: StoredResponse, response_id: str) -> Turn:
    answer = await read_answer(services, caller, stored)
    find_response_lease(caller.scope).release()  # it held outputs in files; of them, only the text is kept
    if answer is None:
        status = read_status(stored.found.row)
        advice = "wait until it is completed" if status in ("queued", "in_progress") else "continue the one before it"
        text = f"response '{response_id[:LONGEST_ID]}' is {status}, so there is no answer to continue; {advice}"
        raise Problem(HTTPStatus.BAD_REQUEST, "previous_response_not_completed", text, errors=blame(text))
    return Turn(stored.request.body, answer.text)


def blame(text: str) -> list[FieldError]:
    return [FieldError("/previous_response_id", text)]
