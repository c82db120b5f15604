"""Models of Triton's vLLM backend.

Their inputs and outputs are those of triton-inference-server/vllm_backend (src/model.py, src/utils/request.py and
docs/additional_outputs.md, January 2026). Numbers of tokens and the reason of the end exist where a model declares the
inputs that ask for them.
"""

import msgspec

from common.tensors import Datatype
from services.gateway.http.problems import FieldError
from services.gateway.models.store import ModelVersion
from services.gateway.openai.kinds.generation import Generation, Inputs, Kind, list_inputs, refuse_others

ASKED = ("return_finish_reason", "return_num_input_tokens", "return_num_output_tokens")


def refuse(generation: Generation, model: ModelVersion) -> list[FieldError]:
    return refuse_others(generation)


def translate(generation: Generation, model: ModelVersion) -> Inputs:
    """Return the inputs. vLLM's own names of sampling parameters are OpenAI's."""
    declared = list_inputs(model)
    sampling = generation.given | ({} if generation.max_tokens is None else {"max_tokens": generation.max_tokens})
    flags = {"stream": generation.stream, "exclude_input_in_output": True, **dict.fromkeys(ASKED, True)}
    return {
        "text_input": [generation.prompt],
        "sampling_parameters": [msgspec.json.encode(sampling).decode()],
        **{name: [value] for name, value in flags.items() if name in declared},
    }


KIND = Kind(
    makes_prompts=True,
    inputs={"text_input": Datatype.BYTES, "sampling_parameters": Datatype.BYTES},
    outputs={"text_output": Datatype.BYTES},
    refuse=refuse,
    translate=translate,
)
