"""What the calls below /openai/v1 answer, as far as the command line reads it. Pure."""

import msgspec

from charonia.schemas import Problem


class ErrorText(msgspec.Struct, frozen=True):
    """What is wrong."""

    message: str = ""
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of a refused call."""

    error: ErrorText | None = None


class Delta(msgspec.Struct, frozen=True):
    """What a chunk adds to an answer."""

    content: str | None = None


class Choice(msgspec.Struct, frozen=True):
    """A part of an answer; with the reason, it is the last one."""

    delta: Delta = Delta()
    finish_reason: str | None = None


class TokenUsage(msgspec.Struct, frozen=True):
    """How many tokens an answer took."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Chunk(msgspec.Struct, frozen=True):
    """One event of a streamed answer: a part of it, its usage, or why it ends without success."""

    choices: list[Choice] = []
    usage: TokenUsage | None = None
    error: ErrorText | None = None


def read_openai_error(body: bytes) -> Problem | None:
    """Return the problem in an error of OpenAI's form, or None for a body of another form."""
    try:
        error = msgspec.json.decode(body, type=ErrorBody).error
    except msgspec.DecodeError:
        return None
    return None if error is None or not error.code else Problem(type=error.code, detail=error.message)
