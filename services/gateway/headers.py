"""Which headers a subscription may add to its deliveries. Pure."""

import re
from collections.abc import Mapping

from services.gateway.errors import FieldError
from services.gateway.tensors import escape

NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token of RFC 9110
VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]{0,2000}[\x21-\x7e])?")
OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect"}
    | {"host", "keep-alive", "proxy-authorization", "te", "traceparent", "tracestate", "trailer"}
    | {"transfer-encoding", "upgrade", "user-agent"}
)


def check_headers(headers: Mapping[str, str]) -> list[FieldError]:
    errors = []
    for name, value in headers.items():
        pointer = f"/headers/{escape(name)}"
        if not NAME.fullmatch(name):
            errors.append(FieldError(pointer, "is not the name of a header"))
        elif name.lower() in OURS or name.lower().startswith("webhook-"):
            errors.append(FieldError(pointer, "is set by Charonia"))
        if not VALUE.fullmatch(value):
            errors.append(FieldError(pointer, "has a value that is not 1 to 2000 visible ASCII characters"))
    return errors
