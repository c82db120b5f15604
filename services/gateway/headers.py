"""The mistakes in the headers that a subscription asks for. Pure."""

from collections.abc import Mapping

from common.webhook_headers import find_mistake
from services.gateway.errors import FieldError
from services.gateway.tensors import escape


def check_headers(headers: Mapping[str, str]) -> list[FieldError]:
    return [
        FieldError(f"/headers/{escape(name)}", mistake)
        for name, value in headers.items()
        if (mistake := find_mistake(name, value)) is not None
    ]
