"""The main calls with OpenAI's client for Node."""

from tests.acceptance.gateway.openai.conftest import run_node


async def test_the_main_calls(base_url: str) -> None:
    found = await run_node(base_url)
    assert found.pop("response")[1:] == ["completed", "one two"]
    assert found == {
        "models": True,
        "chat": "one two",
        "stream": ["one", " two", None],
        "embedding": [7, 2, 3],
        "error": ["NotFoundError", "model_not_found"],
    }
