"""The calls that the lines of a batch may be: how each becomes a job, and the job an answer. Pure."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from common.jobs.job import Job
from services.gateway.openai.calls.answer import join
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.translation import Reshow, Shown, Translate
from services.gateway.openai.chat import rendering as chat_rendering
from services.gateway.openai.chat import translation as chat
from services.gateway.openai.completions import rendering as completion_rendering
from services.gateway.openai.completions import translation as completions
from services.gateway.openai.embeddings import translation as embeddings
from services.gateway.openai.kinds.pieces import Outputs
from services.gateway.openai.responses import rendering as response_rendering
from services.gateway.openai.responses import translation
from services.gateway.openai.responses.echo import ShownResponse


class BatchCall(NamedTuple):
    """A call. `write` returns the body of its answer, as JSON. It raises Problem (500) for unreadable outputs."""

    translate: Translate
    reshow: Reshow
    write: Callable[[Job, Shown, list[Outputs]], bytes]


def write_chat(row: Job, shown: Shown, responses: list[Outputs]) -> bytes:
    text, transcript = join(row, responses, shown)
    return msgspec.json.encode(chat_rendering.write_completion(row, text, transcript))


def write_completion(row: Job, shown: Shown, responses: list[Outputs]) -> bytes:
    text, transcript = join(row, responses, shown)
    return msgspec.json.encode(completion_rendering.write_completion(row, shown, text, transcript))


def write_embeddings(row: Job, shown: Shown, responses: list[Outputs]) -> bytes:
    return embeddings.write_list(row.model, responses[0] if responses else {}, shown)


def write_response(row: Job, shown: Shown, responses: list[Outputs]) -> bytes:
    assert isinstance(shown, ShownResponse), "the translation of responses makes no other"
    answer = response_rendering.Answer(*join(row, responses, shown))
    return msgspec.json.encode(response_rendering.write_response(row, shown.echo, answer))


CALLS: Mapping[str, BatchCall] = {
    Endpoint.CHAT: BatchCall(chat.translate, chat.reshow, write_chat),
    Endpoint.COMPLETIONS: BatchCall(completions.translate, completions.reshow, write_completion),
    Endpoint.EMBEDDINGS: BatchCall(embeddings.translate, embeddings.reshow, write_embeddings),
    Endpoint.RESPONSES: BatchCall(translation.translate, translation.reshow, write_response),
}
