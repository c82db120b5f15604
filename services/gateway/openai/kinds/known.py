"""The kinds of models that generate text, by the value of `charonia.openai`."""

from services.gateway.openai.kinds import messages, tensorrtllm, vllm
from services.gateway.openai.kinds.generation import Kind

EMBEDDINGS = "embeddings"
GENERATING: dict[str, Kind] = {"vllm": vllm.KIND, "tensorrtllm": tensorrtllm.KIND, "messages": messages.KIND}
KNOWN = (*GENERATING, EMBEDDINGS)
BACKENDS = {"vllm": "vllm"}  # the kind of the models of a backend, unless they say another
