"""Whose request it is, for its log line."""

from typing import Any

from litestar.connection import ASGIConnection
from opentelemetry.trace import get_current_span

from common import ids


def identify_caller(request: ASGIConnection[Any, Any, Any, Any]) -> dict[str, str]:
    """The tenant, where the key has been looked up, and the trace, where there is one."""
    key, span = request.scope.get("user"), get_current_span().get_span_context()
    found = {"tenant": ids.show(ids.Kind.TENANT, key.tenant_id)} if key else {}
    return found | ({"trace_id": f"{span.trace_id:032x}"} if span.is_valid else {})
