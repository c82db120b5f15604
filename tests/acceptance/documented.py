"""What the OpenAPI document says of an answer."""

import re
from typing import Any

import httpx

# What every answer has, and HTTP itself says.
GENERAL = {"content-length", "content-type", "date", "server", "connection", "transfer-encoding", "vary", "allow"}


def list_headers(answer: httpx.Response) -> set[str]:
    """Those that were sent, in lower case, but for the general ones."""
    return set(answer.headers) - GENERAL


def find_headers(document: dict[str, Any], answer: httpx.Response) -> set[str]:
    """Those that the document has for it, in lower case."""
    method, where = answer.request.method.lower(), answer.request.url.path
    for path, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), where) and method in operations:
            told = operations[method]["responses"].get(str(answer.status_code), {})
            return {name.lower() for name in told.get("headers", {})}
    raise AssertionError(f"the document has no {method} {where}")
