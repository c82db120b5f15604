"""Models that take a request as JSON, and template by themselves.

The JSON has `messages` as they came, and of `max_tokens`, `temperature`, `top_p`, `stop` (a list), `seed`,
`frequency_penalty`, `presence_penalty` and `stream` what the request has. A model with an output `tool_calls` also gets
`tools`, `tool_choice` and `parallel_tool_calls`. Further parameters are those that the model's configuration lists in
`charonia.openai_parameters`, with commas between them.
"""

import msgspec

from common.tensors import Datatype
from services.gateway.http.problems import FieldError
from services.gateway.models.store import ModelVersion
from services.gateway.openai.kinds.generation import Generation, Inputs, Kind, refuse_others

PARAMETERS = "charonia.openai_parameters"
OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
IMAGES = "images"  # listed there, the model takes images among the messages


def list_taken(model: ModelVersion) -> frozenset[str]:
    """Return the further parameters that a model takes."""
    listed = {name.strip() for name in model.settings.get(PARAMETERS, "").split(",")}
    has_tools = any(output.name == "tool_calls" for output in model.outputs)
    return frozenset(listed - {""}).union(OF_TOOLS if has_tools else ())


def refuse(generation: Generation, model: ModelVersion) -> list[FieldError]:
    return refuse_others(generation, list_taken(model))


def translate(generation: Generation, model: ModelVersion) -> Inputs:
    request = {
        "messages": generation.messages,
        **generation.given,
        **({} if generation.max_tokens is None else {"max_tokens": generation.max_tokens}),
        "stream": generation.stream,
        **generation.others,
    }
    value = [msgspec.json.encode(request).decode()]
    return {"request": [value] if model.max_batch_size > 0 else value}


KIND = Kind(
    makes_prompts=False,
    inputs={"request": Datatype.BYTES},
    outputs={"text": Datatype.BYTES},
    refuse=refuse,
    translate=translate,
)
