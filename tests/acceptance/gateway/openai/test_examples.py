"""The examples of OpenAI's API in the OpenAPI document work, and return what is documented."""

from typing import Any

import httpx

from services.gateway.openai.problems import PREFIX
from services.gateway.openapi.openai_examples import FILE_ID
from tests.acceptance.gateway.openapi.test_examples import check_response, list_bodies
from tests.support.api.api_client import Api
from tests.support.openai_batches import chat, create, write

MODELS = {b'"chat"': b'"messages_model"', b'"llm"': b'"vllm_model"', b'"embed"': b'"embeddings_model"'}
SLOW = [chat("a", "$slow" + " word" * 100, "messages_model")]
FORM: Any = {"file": ("lines.jsonl", b"{}"), "purpose": (None, "batch")}

RESPONSE = {"model": "vllm_model", "input": "hello"}


async def test_every_call_returns_what_is_documented(api: Api, client: Any) -> None:
    document = (await api.http.get("/openapi.json")).json()
    batch = await create(client, write(SLOW))
    file = await client.files.create(file=("lines.jsonl", b"{}"), purpose="batch")
    in_path = {"model": "vllm_model", "batch_id": batch.id, "openai_file_id": file.id}
    calls = [
        (method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if path.startswith(PREFIX)
    ]
    sent = set()
    for method, path, operation in sorted(calls, key=lambda call: call[0] == "DELETE"):
        for body in list_bodies(operation, ""):
            for name, stand_in in MODELS.items():
                body = body.replace(name, stand_in)
            body = body.replace(FILE_ID.encode(), batch.input_file_id.encode())
            if "{response_id}" in path:
                asked = RESPONSE | {"background": path.endswith("/cancel")}  # the others need one that has ended
                made = await api.http.post(f"{PREFIX}/responses", json=asked)
                in_path |= {"response_id": made.json()["id"]}
            form = FORM if operation["operationId"] == "create_openai_file" else None
            response: httpx.Response = await api.http.request(
                method, path.format(**in_path), content=body or None, files=form
            )
            check_response(document, operation, response)
            sent.add(operation["operationId"])
    assert len(sent) == 10 + 4 + 5
