"""What a model is asked to write, whichever call asked for it, and what a kind of model takes of it. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from common.tensors import Datatype
from services.gateway.http.problems import FieldError
from services.gateway.models.store import ModelVersion

MAX_TOKENS = 4096  # of an answer, if neither the request nor the model's configuration says how many
# Further parameters that only some models take.
OTHERS = (
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "reasoning_effort",
    "verbosity",
    "prediction",
    "web_search_options",
)
# What every model takes of a further parameter, as an error says it. Of the others, it is nothing.
TAKEN_BY_ALL = {
    "response_format": '{"type": "text"}',
    "logprobs": "false",
    "top_logprobs": "0",
    "tool_choice": "none or auto",
}


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A text to generate: after a `prompt`, or as the next of `messages`, which are as OpenAI has them.

    `others` are further parameters that only some models take, by OpenAI's names. Parameters that are None have the
    model's own default.
    """

    prompt: str | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stream: bool = False
    others: Mapping[str, Any] = {}

    @property
    def given(self) -> dict[str, Any]:
        """Return the sampling parameters that the request has, by OpenAI's names."""
        values = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stop": list(self.stop) or None,
            "seed": self.seed,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
        }
        return {name: value for name, value in values.items() if value is not None}


GIVEN = tuple(name for name in Generation.__struct_fields__ if name != "others")
Inputs: TypeAlias = dict[str, Any]  # as a submitted job has them


class Kind(NamedTuple):
    """A kind of model that generates text.

    `makes_prompts`: the model takes one text, so that messages need a template. `inputs` and `outputs` are those that
    it must have; other inputs must be optional. `refuse` returns what a model cannot do of a request. `translate`
    returns the inputs; the prompt is rendered already.
    """

    makes_prompts: bool
    inputs: Mapping[str, Datatype]
    outputs: Mapping[str, Datatype]
    refuse: Callable[[Generation, ModelVersion], list[FieldError]]
    translate: Callable[[Generation, ModelVersion], Inputs]


def list_inputs(model: ModelVersion) -> frozenset[str]:
    return frozenset(signature.name for signature in model.inputs)


def refuse_others(generation: Generation, taken: Collection[str] = ()) -> list[FieldError]:
    """Return an error for each further parameter that a model does not take."""
    return [FieldError(f"/{name}", explain(name)) for name in generation.others if name not in taken]


def explain(name: str) -> str:
    """Return why a further parameter is refused, what is allowed, and what to do."""
    allowed = f"takes only {TAKEN_BY_ALL[name]} here" if name in TAKEN_BY_ALL else "cannot do this"
    return f"this model {allowed}; leave the parameter out, or use a model that can"
