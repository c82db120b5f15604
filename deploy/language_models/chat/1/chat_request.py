"""Checks a chat request, and turns it into what llama.cpp takes. It ignores nothing in silence.

The fields are those of OpenAI's `POST /chat/completions`. A field whose value is null, false or empty is absent.
"""

import json

MAX_STOPS = 16
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
# Between these, the template puts each message. A text that has them could speak as somebody else.
MARKS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
# They say how to answer, and to whom. They are not the model's to read.
OF_THE_CALLER = {
    "metadata",
    "model",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "user",
}
DEFAULTS = {"temperature": 0.2, "top_p": 0.9}  # those that the model's authors advise
SEEDS = 2**32 - 1  # llama.cpp takes fewer seeds than OpenAI's integers, and the next one means "any"


class InvalidRequest(Exception):
    """The request is wrong, or asks for what the model cannot do. The message begins with the name of a field."""


def read_request(text):
    """Return the request for llama.cpp; raise InvalidRequest, which names the field and says what to do.

    `text` is the request as JSON, in UTF-8.
    """
    try:
        request = json.loads(text)
    except ValueError as error:  # wrong UTF-8, too
        raise InvalidRequest(f"request: is not JSON ({error}): send an object with messages") from None
    except RecursionError:
        raise InvalidRequest("request: is nested too deeply: send an object with messages") from None
    if not isinstance(request, dict):
        raise InvalidRequest("request: must be a JSON object with messages")
    given = {name: value for name, value in request.items() if name not in OF_THE_CALLER and not _is_absent(value)}
    messages = _messages(given.pop("messages", None))
    _drop_what_changes_nothing(given)
    read = DEFAULTS | {"messages": messages}
    for name, check in CHECKS.items():
        if name in given:
            read[FIELDS.get(name, name)] = check(name, given.pop(name))
    if given:
        name = min(given)
        raise InvalidRequest(f"{name}: this model cannot do that; leave it out")
    return read


def _is_absent(value):
    return value is None or value is False or value in ("", [], {})


def _drop_what_changes_nothing(given):
    """Remove fields that ask for what the model does anyway."""
    if given.get("n") == 1:
        del given["n"]
    if given.get("response_format") == {"type": "text"}:
        del given["response_format"]
    if given.get("modalities") == ["text"]:
        del given["modalities"]
    if given.get("tool_choice") == "none":
        del given["tool_choice"]


def _messages(value):
    if not isinstance(value, list) or not value:
        raise InvalidRequest("messages: must be a list of at least one message with role and content")
    return [_message(f"messages[{index}]", each) for index, each in enumerate(value)]


def _message(name, value):
    if not isinstance(value, dict):
        raise InvalidRequest(f"{name}: must be an object with role and content")
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidRequest(f"{name}.role: must be one of {', '.join(ROLES)}")
    more = sorted(key for key, each in value.items() if key not in ("role", "content") and not _is_absent(each))
    if more:
        raise InvalidRequest(f"{name}.{more[0]}: this model cannot do that; leave it out")
    return {"role": ROLES[role], "content": _content(f"{name}.content", value.get("content"))}


def _content(name, value):
    parts = value if isinstance(value, list) else [{"type": "text", "text": value}]
    for part in parts:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise InvalidRequest(f"{name}: must be a text, or a list of parts of the type text")
    text = "".join(part["text"] for part in parts)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRequest(f"{name}: has half a character (a lone surrogate): leave it out")
    for mark in MARKS:
        if mark in text:
            raise InvalidRequest(f"{name}: has {mark}, with which the model's template ends a message; leave it out")
    return text


def _number_between(lowest, highest):
    def check(name, value):
        if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
            raise InvalidRequest(f"{name}: must be a number from {lowest} to {highest}")
        return float(value)

    return check


def _count(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise InvalidRequest(f"{name}: must be a whole number of at least 1")
    return value


def _seed(name, value):
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{name}: must be a whole number")
    return value % SEEDS


def _stops(name, value):
    stops = [value] if isinstance(value, str) else value
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(each, str) and each for each in stops)
    ):
        raise InvalidRequest(f"{name}: must be a text, or a list of up to {MAX_STOPS} texts that are not empty")
    return stops


CHECKS = {
    "frequency_penalty": _number_between(-2, 2),
    "max_tokens": _count,
    "max_completion_tokens": _count,  # wins over its older name
    "presence_penalty": _number_between(-2, 2),
    "seed": _seed,
    "stop": _stops,
    "temperature": _number_between(0, 2),
    "top_p": _number_between(0, 1),
}
FIELDS = {"max_completion_tokens": "max_tokens"}
