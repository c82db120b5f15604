"""The models that speak OpenAI's API in tests, and their inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

STUBS = Path(__file__).with_name("models")  # of the backends for vLLM and TensorRT-LLM


def ask(content: str, **more: object) -> dict[str, list[str]]:
    """Return the inputs of `chat` for a message of the user. `more` are fields of the request."""
    request = {"messages": [{"role": "user", "content": content}], **more}
    return {"request": [msgspec.json.encode(request).decode()]}


def join_text(outputs: Sequence[Mapping[str, object]], name: str = "text") -> str:
    """Return the text of all responses of a job. `outputs` are its outputs as the API has them."""
    data = [each["data"] for each in outputs if each["name"] == name]
    return "".join(str(part) for each in data if isinstance(each, list) for part in each)
