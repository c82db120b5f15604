"""What is wrong with an element of a tensor, and what its datatype takes. Pure."""

import math
import re
from collections.abc import Sequence
from typing import Any

from common.tensors import FLOATS, SIZES, Datatype
from services.gateway.http.validation.allowed_values import show

RAW = '{"base64": "…"}'
LARGEST = {
    Datatype.FP16: 65504.0,
    Datatype.BF16: 3.3895313892515355e38,
    Datatype.FP32: 3.4028234663852886e38,
    Datatype.FP64: 1.7976931348623157e308,
}
NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]|=(?!=?$)")
CAUSES = {
    "-": "it is URL-safe base64; use + and / in place of - and _",
    "_": "it is URL-safe base64; use + and / in place of - and _",
    "\n": "it has line breaks; encode with `base64 -w0`",
    "\r": "it has line breaks; encode with `base64 -w0`",
    " ": "it has spaces; a + in a form or URL becomes one",
    "@": "it looks like the name of a file; put in the content, such as from `base64 -w0 FILE`",
    ".": "it looks like the name of a file; put in the content, such as from `base64 -w0 FILE`",
}


def explain_element(value: Any, datatype: Datatype) -> str:
    """Return why a value of the wrong type is no element of this datatype."""
    match value:
        case bool():
            text = f"is {show(value)}; {datatype} takes {takes(datatype)}"
            return text if datatype is Datatype.BYTES else f"{text}, such as {int(value)}"
        case float() if datatype not in (*FLOATS, Datatype.BOOL, Datatype.BYTES):
            if value == value // 1:
                return f"is {value!r}; {datatype} takes whole numbers, written without a point"
            return f"is {show(value)}, not a whole number; {datatype} takes only those"
        case int() | float():
            return f"is {show(value)}, a number; {datatype} takes {takes(datatype)}"
        case str():
            text = f"is {show(value)}, a string; {datatype} takes {takes(datatype)}"
            return f"{text}, without quotes" if is_literal(value) else text
        case None:
            return f"is null; {datatype} takes {takes(datatype)}"
        case list():
            return f"is a list; {datatype} takes {takes(datatype)}"
        case dict() if "file" in value or "url" in value:
            what = "file" if "file" in value else "URL"
            text = f"is an object; a {what} stands for a whole input, not for an element"
            return f"{text}. {datatype} takes {takes(datatype)}"
        case _ if datatype is Datatype.BYTES:
            return f"is an object; only {RAW} alone stands for raw bytes, with a string in it"
        case _:
            return f"is an object; {datatype} takes {takes(datatype)}. {RAW} stands for a whole input"


def is_literal(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("true", "false")
    return True


def takes(datatype: Datatype) -> str:
    if datatype is Datatype.BYTES:
        return f"strings, or {RAW} for raw bytes"
    if datatype is Datatype.BOOL:
        return "true and false"
    return "numbers" if datatype in FLOATS else "whole numbers"


def explain_overflow(flat: Sequence[Any], datatype: Datatype) -> str:
    """Return which element is outside the range of the datatype."""
    lowest, highest = find_range(datatype)
    for index, value in enumerate(flat):
        if not (lowest <= value <= highest or (isinstance(value, float) and not math.isfinite(value))):
            return f"element {index}: {show(value)} is outside {show_bound(lowest)}…{show_bound(highest)} of {datatype}"
    return f"an element rounds to a value outside {show_bound(lowest)}…{show_bound(highest)} of {datatype}"


def find_range(datatype: Datatype) -> tuple[float, float]:
    if datatype in LARGEST:
        return -LARGEST[datatype], LARGEST[datatype]
    bits = 8 * SIZES[datatype]
    return (0, 2**bits - 1) if datatype.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def show_bound(value: float) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def explain_base64(text: str) -> str:
    """Return why a text is not base64, as the end of a sentence."""
    found = NOT_BASE64.search(text)
    if found is None:
        return f"its length {len(text)} is not a multiple of 4; was it cut?"
    cause = CAUSES.get(found.group()[0])
    return cause or f"character {found.start() + 1} is {show(found.group()[0])}; base64 has A-Z, a-z, 0-9, + and /"
