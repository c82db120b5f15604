"""Stores other bytes than a presigned URL allows."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore.store import S3Store


async def replace(environment: Mapping[str, str], upload: Mapping[str, Any], content: bytes) -> None:
    """Store the content in the place of an upload, as clients of Google and Azure can: there, URLs take any length."""
    query = dict(parse_qsl(urlsplit(upload["url"]).query))
    assert query["X-Amz-SignedHeaders"] == "content-length;host"
    bucket, key = urlsplit(upload["url"]).path.removeprefix("/").split("/", 1)
    store = S3Store(
        bucket,
        endpoint=environment["AWS_ENDPOINT_URL"],
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )
    await obstore.put_async(store, key, content)
