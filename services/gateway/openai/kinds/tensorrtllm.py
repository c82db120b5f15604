"""TensorRT-LLM's `ensemble` or `tensorrt_llm_bls` models.

Their inputs and outputs are those of triton-inference-server/tensorrtllm_backend (docs/model_config.md). All but the
text and `max_tokens` are optional, and older releases have fewer. They do not tell why a text ends. Some tell numbers
of tokens.
"""

from typing import Any

from common.tensors import Datatype
from services.gateway.http.problems import FieldError
from services.gateway.models.store import ModelVersion
from services.gateway.openai.kinds.generation import Generation, Inputs, Kind, list_inputs, refuse_others

ASKED = ("return_num_input_tokens", "return_num_output_tokens")
# OpenAI's parameters, each by the names that releases have for it.
NAMES = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "seed": ("seed", "random_seed"),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "stop": ("stop_words",),
}


def find_name(parameter: str, model: ModelVersion) -> str | None:
    """Return the model's input for a parameter, or None if it has none."""
    declared = list_inputs(model)
    return next((name for name in NAMES[parameter] if name in declared), None)


def refuse(generation: Generation, model: ModelVersion) -> list[FieldError]:
    missing = [name for name in generation.given if find_name(name, model) is None]
    text = "this model has no input for it; leave the parameter out, or use another model"
    errors = [FieldError(f"/{name}", text) for name in missing]
    if generation.stream and not (model.decoupled and "stream" in list_inputs(model)):
        errors.append(FieldError("/stream", "this model does not stream; leave the parameter out"))
    if generation.seed is not None and generation.seed < 0:
        errors.append(FieldError("/seed", "this model takes a seed from 0"))
    return errors + refuse_others(generation)


def translate(generation: Generation, model: ModelVersion) -> Inputs:
    """Return the inputs, in a batch of one if the model has batches."""
    declared = list_inputs(model)
    values: dict[str, list[Any]] = {"text_input": [generation.prompt], "max_tokens": [generation.max_tokens]}
    for parameter, value in generation.given.items():
        if (name := find_name(parameter, model)) is not None:
            values[name] = value if isinstance(value, list) else [value]
    flags = {"stream": generation.stream, "exclude_input_in_output": True, **dict.fromkeys(ASKED, True)}
    values |= {name: [value] for name, value in flags.items() if name in declared}
    return {name: [value] for name, value in values.items()} if model.max_batch_size > 0 else {**values}


KIND = Kind(
    makes_prompts=True,
    inputs={"text_input": Datatype.BYTES, "max_tokens": Datatype.INT32},
    outputs={"text_output": Datatype.BYTES},
    refuse=refuse,
    translate=translate,
)
