"""What models have written: pieces of a text, and what they say of it. Pure.

The outputs of all kinds differ by name, so none of this needs to know the kind.
"""

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Outputs = Mapping[str, Sequence[Any]]  # the elements by output: bytes, or numbers

TEXTS = ("text_output", "text")
NO_REASON = ("", "None", "null")  # vLLM writes the first two until the end of a text
REASONS = {"abort": "stop", "error": "stop"}  # of vLLM, which OpenAI does not have


class TokenUsage(msgspec.Struct, frozen=True):
    """How many tokens a request took."""

    prompt_tokens: int
    """Tokens of the prompt."""
    completion_tokens: int
    """Tokens of the answer."""
    total_tokens: int
    """Both together."""


class UsageJson(msgspec.Struct, frozen=True):
    """`usage` as a model writes it. It may have more."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Piece(msgspec.Struct, frozen=True):
    """One response of a model. Tokens are those of this piece, except if `is_total`."""

    text: bytes
    finish_reason: str | None = None
    tells_reason: bool = False  # or that there is none yet
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    is_total: bool = False
    tool_calls: Sequence[dict[str, Any]] = ()


class UnreadableOutput(Exception):
    """A model's outputs are not those of its kind."""


def read_piece(outputs: Outputs) -> Piece:
    """Return what a response says. Raises UnreadableOutput."""
    found = [outputs[name] for name in TEXTS if name in outputs]
    if not found:
        given = ", ".join(outputs) or "none"
        raise UnreadableOutput(f"the model returned no output 'text_output' or 'text'; it returned {given}")
    text = b"".join(found[0])
    reason = read_text(outputs, "finish_reason")
    calls = read_json(outputs, "tool_calls", list[dict[str, Any]]) or ()
    usage = read_json(outputs, "usage", UsageJson)
    piece = Piece(text, read_reason(reason), "finish_reason" in outputs, tool_calls=calls)
    if usage is not None:
        tokens = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "is_total": True}
        return msgspec.structs.replace(piece, **tokens)
    return msgspec.structs.replace(
        piece,
        prompt_tokens=read_sum(outputs, "num_input_tokens"),
        completion_tokens=read_sum(outputs, "num_output_tokens"),
    )


def read_text(outputs: Outputs, name: str) -> str:
    element = (outputs.get(name) or (b"",))[0]
    if not isinstance(element, bytes):
        raise UnreadableOutput(f"the output '{name}' of the model must be BYTES")
    return element.decode(errors="replace")


def read_sum(outputs: Outputs, name: str) -> int | None:
    """Return the sum of an output's whole numbers, or None without any. Raises UnreadableOutput."""
    elements = outputs.get(name)
    try:
        return sum(map(int, elements)) if elements else None
    except (ValueError, OverflowError) as error:
        raise UnreadableOutput(f"the output '{name}' of the model must be whole numbers") from error


def read_json(outputs: Outputs, name: str, kind: Any) -> Any:
    text = read_text(outputs, name)
    if not text or text == "null":
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableOutput(f"the output '{name}' of the model is not what it should be: {error}") from error


def read_reason(text: str) -> str | None:
    return None if text in NO_REASON else REASONS.get(text, text)


class Transcript:
    """The pieces of an answer so far. A character may begin in one piece and end in the next.

    Some models end a text with the stop text, and do not say why it ends. So the end is held back until it is known.
    """

    def __init__(self, stop: Sequence[str] = (), max_tokens: int | None = None) -> None:
        """`stop` are texts that the answer must not end with. `max_tokens` is what the request allows."""
        self._stop = [each for each in stop if each]
        self._max_tokens = max_tokens
        self._holds = max(map(len, self._stop), default=0)
        self._held = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._reason: str | None = None
        self._recorded: str | None = None
        self._prompt_tokens: int | None = None
        self._completion_tokens: int | None = None
        self.tool_calls: list[dict[str, Any]] = []

    def add(self, piece: Piece) -> str:
        """Take a piece, and return the text that is new."""
        self._reason = piece.finish_reason or self._reason
        if piece.prompt_tokens is not None:
            self._prompt_tokens = piece.prompt_tokens
        if piece.completion_tokens is not None:
            before = 0 if piece.is_total or self._completion_tokens is None else self._completion_tokens
            self._completion_tokens = before + piece.completion_tokens
        self.tool_calls += piece.tool_calls
        text = self._held + self._decoder.decode(piece.text)
        known = len(text) if piece.tells_reason else max(0, len(text) - self._holds)
        self._held = text[known:]
        return text[:known]

    def end(self, recorded: str | None = None) -> str:
        """Return what is left of the text. It may end with a replacement for a character without its last bytes.

        `recorded` is the reason that the job remembers: its dispatcher knew the limit of the model's configuration.
        """
        self._recorded = recorded
        text, self._held = self._held + self._decoder.decode(b"", final=True), ""
        if self._reason is None:
            for stop in self._stop:
                if text.endswith(stop):
                    self._reason = "stop"
                    return text.removesuffix(stop)
        return text

    @property
    def finish_reason(self) -> str:
        """Why the text ended, as far as the model says so, or its tokens show it."""
        if self._reason is not None:
            return self._reason
        if self.tool_calls:
            return "tool_calls"
        if self._recorded is not None:
            return self._recorded
        used, most = self._completion_tokens, self._max_tokens
        return "length" if used is not None and most is not None and used >= most else "stop"

    @property
    def usage(self) -> TokenUsage | None:
        """The tokens, if the model told both numbers."""
        if self._prompt_tokens is None or self._completion_tokens is None:
            return None
        total = self._prompt_tokens + self._completion_tokens
        return TokenUsage(self._prompt_tokens, self._completion_tokens, total)
