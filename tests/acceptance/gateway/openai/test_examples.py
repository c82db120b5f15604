"""The examples of OpenAI's API in the OpenAPI document work, and return what is documented."""

import httpx

from services.gateway.openai.problems import PREFIX
from tests.acceptance.gateway.openapi.test_examples import check_response, list_bodies
from tests.support.api.api_client import Api

MODELS = {b'"chat"': b'"messages_model"', b'"llm"': b'"vllm_model"', b'"embed"': b'"embeddings_model"'}

RESPONSE = {"model": "vllm_model", "input": "hello"}


async def test_every_call_returns_what_is_documented(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()
    sent = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if not path.startswith(PREFIX):
                continue
            for body in list_bodies(operation, ""):
                for name, stand_in in MODELS.items():
                    body = body.replace(name, stand_in)
                asked = RESPONSE | {"background": path.endswith("/cancel")}  # the others need one that has ended
                made = await api.http.post(f"{PREFIX}/responses", json=asked) if "{response_id}" in path else None
                place = path.format(model="vllm_model", response_id=made.json()["id"] if made else "")
                response: httpx.Response = await api.http.request(method.upper(), place, content=body)
                check_response(document, operation, response)
                sent.add(operation["operationId"])
    assert len(sent) == 10
