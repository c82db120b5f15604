"""Uploads of files that jobs read."""

from tests.support.api.api_client import Api


async def upload_file(api: Api, content: bytes, **params: float) -> str:
    """Return the id of a new file."""
    response = await api.http.post("/v1/files", content=content, params=params)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])
