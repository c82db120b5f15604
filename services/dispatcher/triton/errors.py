"""Translates Triton's errors into job failures. docs/how-to/bring-your-own-model.md has the facts behind the rules."""

import re
from typing import NamedTuple

import grpc

from common.job_states import Failure
from services.dispatcher.triton.connection import KEY_HEADER

QUEUE_FULL = "triton_queue_full"
MODEL_CRASHED = "model_crashed"
MAX_MESSAGE_LENGTH = 2000
WRONG_KEY = (
    "CHARONIA_TRITON_REPOSITORY_KEY is missing or wrong: set it to the value in Triton's --grpc-restricted-protocol"
)
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
NOT_ALLOWED = "is not allowed"  # by --model-control-mode; Triton calls that UNAVAILABLE, too
QUARANTINED = Failure(
    MODEL_CRASHED, "the model's process stalled; until the model is reloaded, Triton may mix up its answers", True
)
WRONG_REQUEST = Failure("inference_failed", "Triton returned the answer to a different request", True)


class TritonUnavailable(Exception):
    """Triton does not answer, or refuses a call. `away`: it does not answer."""

    def __init__(self, text: str | None, *, away: bool = False) -> None:
        super().__init__(text)
        self.away = away


def unavailable(error: grpc.aio.AioRpcError) -> TritonUnavailable:
    """Return the error of a call that is no inference. It says what to do if the key is missing or wrong."""
    text = error.details() or str(error.code())
    away = error.code() in AWAY and NOT_ALLOWED not in text
    return TritonUnavailable(f"{text}; {WRONG_KEY}" if KEY_HEADER in text else text, away=away)


class InferenceError(Exception):
    """An inference failed."""

    def __init__(
        self, failure: Failure, *, outage: bool = False, refused: bool = False, delay: float | None = None
    ) -> None:
        """`outage`: the server or the model is away; the job is probably not the cause.

        `refused`: Triton did not accept the request, so the attempt never began. `delay`: seconds until another makes
        sense, if they are known.
        """
        super().__init__(failure.message)
        self.failure = failure
        self.outage = outage
        self.refused = refused
        self.delay = delay

    @property
    def error_type(self) -> str:
        """The name of the error in spans. The message may quote a payload."""
        return self.failure.code

    @property
    def is_queue_full(self) -> bool:
        """Whether the model's own queue is full, so that fewer inferences should run at once."""
        return self.failure.code == QUEUE_FULL


class Rule(NamedTuple):
    """The meaning of an error whose message matches `pattern`."""

    pattern: str
    code: str
    retryable: bool
    outage: bool = False
    refused: bool = False


# What Triton puts before a message. An ensemble puts its name before the error of a step.
MESSAGE_PREFIX = r"(\[request id: [^\]]*\] |in ensemble '[^']*', )*"
INSTANCE_PREFIX = r"(Failed to process the request\(s\) for model instance '[^']*', message: )?"
# An error inside a stream has no status code: the header that requests codes crashes the server. So the text decides.
# The first rule that matches wins. A model may begin its own message with the name of a status code.
RULES = (
    Rule("has no available versions", "model_unavailable", retryable=True, outage=True, refused=True),
    Rule("Server is stopping", "triton_unavailable", retryable=True, outage=True, refused=True),
    # After a restart a server may answer before it has loaded its models.
    Rule(
        "Request for unknown model: '[^']*' is not found",
        "model_unavailable",
        retryable=True,
        outage=True,
        refused=True,
    ),
    Rule("Request for unknown model", "model_not_found", retryable=False),
    Rule("Exceeds maximum queue size", QUEUE_FULL, retryable=True, refused=True),
    Rule("Request timeout expired", "triton_queue_timeout", retryable=True),
    # Only at the start of the message: a model may quote any text in a message of its own.
    Rule(
        f"^{MESSAGE_PREFIX}{INSTANCE_PREFIX}(Stub process .*is not healthy|Failed to obtain the health mutex)",
        MODEL_CRASHED,
        retryable=True,
        outage=True,
    ),
    Rule("unexpected inference input", "invalid_input", retryable=False),
    Rule("expected number of inputs", "invalid_input", retryable=False),
    Rule("unexpected shape for input", "invalid_input", retryable=False),
    Rule("inference input .* data-type is", "invalid_input", retryable=False),
    Rule("invalid value type for .* parameter", "invalid_input", retryable=False),
    Rule("batch-size must be", "invalid_input", retryable=False),
    Rule(
        f"^{MESSAGE_PREFIX}(INVALID_ARG|INVALID_ARGUMENT|OUT_OF_RANGE|FAILED_PRECONDITION)\\b",
        "invalid_input",
        retryable=False,
    ),
    Rule(
        f"^{MESSAGE_PREFIX}(UNSUPPORTED|UNIMPLEMENTED|NOT_FOUND|PERMISSION_DENIED)\\b",
        "inference_refused",
        retryable=False,
    ),
)
DEFAULT_RULE = Rule("", "inference_failed", retryable=True)
# A line after the message of a Python model's exception: where it was raised, then the calls that led there.
FRAME = re.compile(r"^ *(?:.*/)?([^/\n]{1,100})\((\d+)\): (.{1,100})$", re.MULTILINE)
MAX_FRAMES = 3  # that are shown
# Of the server, in gRPC's own messages. Tenants see the rest.
ADDRESS = re.compile(r"\bipv[46]:\S+ | (for|resolving) \S+:\d+(?=:)")
NOT_CONNECTED = "failed to connect to all addresses"  # gRPC's message for a call that never reached the server
# The meaning of a status of the call itself. Errors of a model arrive inside the stream.
STATUS_RULES = {
    grpc.StatusCode.UNAVAILABLE: Rule("", "triton_unavailable", retryable=True, outage=True),
    grpc.StatusCode.CANCELLED: Rule("", "triton_unavailable", retryable=True, outage=True),
    grpc.StatusCode.INTERNAL: Rule("", "triton_unavailable", retryable=True, outage=True),  # broke while it opened
    grpc.StatusCode.UNKNOWN: Rule("", "triton_unavailable", retryable=True, outage=True),
    grpc.StatusCode.RESOURCE_EXHAUSTED: Rule("", "too_large", retryable=False),
    grpc.StatusCode.UNIMPLEMENTED: Rule("", "unsupported", retryable=False),
}
ERROR_CODES = frozenset(rule.code for rule in (*RULES, DEFAULT_RULE, *STATUS_RULES.values()))


def explain(message: str, code: grpc.StatusCode | None = None) -> InferenceError:
    """Return the error that a message of Triton means. `code` is the status of a call that failed itself."""
    matching = (rule for rule in RULES if re.search(rule.pattern, message))
    rule = next(matching, STATUS_RULES.get(code, DEFAULT_RULE) if code else DEFAULT_RULE)
    refused = rule.refused or (code is grpc.StatusCode.UNAVAILABLE and NOT_CONNECTED in message)
    shown = clean_message(message if code is None else ADDRESS.sub("", message))
    failure = Failure(rule.code, shown, rule.retryable)
    return InferenceError(failure, outage=rule.outage, refused=refused)


def clean_message(message: str) -> str:
    """Remove the request id and the server's folders. Of a Python model's traceback, keep the files and lines."""
    text, _, traceback = message.partition("\n\nAt:\n")
    text = re.sub(r"^((?:in ensemble '[^']*', )*)\[request id: [^\]]*\] ", r"\1", text).strip()
    frames = [f"{name}, line {line}, in {function}" for name, line, function in FRAME.findall(traceback)]
    place = f" ({'; '.join(frames[:MAX_FRAMES])})" if frames else ""
    return text[: MAX_MESSAGE_LENGTH - len(place)] + place
