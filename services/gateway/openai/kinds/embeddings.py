"""Models that embed texts: `text` BYTES [batch, 1] → `embedding` FP32 [batch, n], and optionally `tokens`.

`tokens` is a whole number for each text.
"""

from collections.abc import Sequence

from common.tensors import Datatype
from services.gateway.models.store import ModelVersion
from services.gateway.openai.kinds.generation import Inputs

TEXT, EMBEDDING, TOKENS = "text", "embedding", "tokens"
INPUTS = {TEXT: Datatype.BYTES}
OUTPUTS = {EMBEDDING: Datatype.FP32}


def find_shape_error(model: ModelVersion) -> str | None:
    """Return what is wrong with the shapes of a model, or None."""
    text = next(each.shape for each in model.inputs if each.name == TEXT)
    vector = next(each.shape for each in model.outputs if each.name == EMBEDDING)
    if len(text) not in (1, 2) or text[-1] not in ((1, -1) if len(text) == 2 else (-1,)):
        return f"its input '{TEXT}' must have the shape [batch, 1]; it has {text}"
    return None if len(vector) == 2 else f"its output '{EMBEDDING}' must have the shape [batch, n]; it has {vector}"


def find_size(model: ModelVersion) -> int:
    """Return the length of a vector, or -1 if the model does not say."""
    return next(each.shape[-1] for each in model.outputs if each.name == EMBEDDING)


def translate(texts: Sequence[str], model: ModelVersion) -> Inputs:
    """Return the inputs of a job with all texts."""
    shape = next(each.shape for each in model.inputs if each.name == TEXT)
    return {TEXT: [[text] for text in texts] if len(shape) == 2 else list(texts)}
