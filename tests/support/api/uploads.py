"""Uploads of files."""

from collections.abc import AsyncIterator
from typing import Any

from tests.support.api.api_client import Api


async def upload(api: Api, content: bytes | AsyncIterator[bytes], status: int = 201, **more: Any) -> dict[str, Any]:
    response = await api.http.post("/v1/files", content=content, **more)
    assert response.status_code == status, response.text
    found: dict[str, Any] = response.json()
    if status == 201:
        assert response.headers["Location"] == f"/v1/files/{found['id']}"
    return found


async def in_parts(content: bytes) -> AsyncIterator[bytes]:
    for first in range(0, len(content), 100_000):
        yield content[first : first + 100_000]


def code_of(problem: dict[str, Any]) -> str:
    return str(problem["type"]).removeprefix("urn:charonia:problem:")
