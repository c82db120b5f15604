"""Which calls each kind of model takes."""

import pytest

from services.gateway.models.store import ModelVersion
from services.gateway.openai.models.endpoints import list_endpoints
from services.gateway.openai.speakers import read_speaker
from tests.unit.gateway.openai.speaking import EMBEDDINGS, MESSAGES, VLLM, VLLM_INPUTS, given, model

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
BARE = model("llm", VLLM_INPUTS, [given("text_output", shape=[-1])], backend="vllm")


@pytest.mark.parametrize(
    ("declared", "endpoints"),
    [
        (VLLM, [CHAT, COMPLETIONS, RESPONSES]),
        (BARE, [COMPLETIONS]),
        (MESSAGES, [CHAT, RESPONSES]),
        (EMBEDDINGS, ["/v1/embeddings"]),
    ],
    ids=["with a template", "without one", "messages", "embeddings"],
)
def test_a_model_lists_the_calls_that_it_takes(declared: ModelVersion, endpoints: list[str]) -> None:
    assert list_endpoints(read_speaker(declared)) == endpoints
