"""The headers of a response, compared with the OpenAPI document."""

import re
from typing import Any

import httpx

# Headers that HTTP itself defines for every response.
GENERAL = {"content-length", "content-type", "date", "server", "connection", "transfer-encoding", "vary", "allow"}


def list_headers(response: httpx.Response) -> set[str]:
    """Return the headers of a response in lower case, without the general ones."""
    return set(response.headers) - GENERAL


def find_headers(document: dict[str, Any], response: httpx.Response) -> set[str]:
    """Return the headers that the document lists for a response, in lower case."""
    method, requested = response.request.method.lower(), response.request.url.path
    for path, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), requested) and method in operations:
            documented = operations[method]["responses"].get(str(response.status_code), {})
            return {name.lower() for name in documented.get("headers", {})}
    raise AssertionError(f"the document has no {method} {requested}")
