"""What is wrong with a decoded value, by the type that it should have: each mistake, with what is allowed. Pure.

msgspec finds whether a body is valid. This says why not, in words that fit any client's language.
"""

import math
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from common.pipelines.definition import STEP_NAME
from services.gateway.http.problems import FieldError, escape
from services.gateway.http.validation.allowed_values import (
    MAX_SHOWN,
    TIME_EXAMPLE,
    describe,
    find_unit,
    fits,
    is_number,
    list_choices,
    show,
)
from services.gateway.http.validation.suggestions import say_unknown, suggest

WHOLE = re.compile(r"-?[0-9]{1,40}")
DECIMAL = re.compile(r"-?[0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?")
PATTERNS = {
    r"^[^\x00]*$": "must not contain NUL characters",
    r"^[^\x00-\x1f\x7f]*$(?!\n)": "must not contain control characters",
    "^[0-9a-fA-F]{64}$": "must be 64 hexadecimal digits",
    STEP_NAME: "must have 1 to 64 letters, digits, _ and -, must begin with a letter or _, and must not be `inputs`",
}
ENDS_IN_DATE = re.compile(r"\d{4}-\d\d-\d\d")
LACKS_ZONE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?")

Errors = Iterator[FieldError]


@cache
def read_type(kind: Any) -> inspect.Type:
    """Return the description of a type that `find_errors` takes."""
    return inspect.type_info(kind)


def find_errors(value: Any, kind: inspect.Type, pointer: str = "", *, is_text: bool = False) -> Errors:
    """Yield each mistake in a value. `is_text`: the value is a parameter, so numbers are texts."""
    match kind:
        case inspect.Metadata():
            yield from find_errors(value, kind.type, pointer, is_text=is_text)
        case inspect.UnionType():
            yield from find_union_errors(value, kind, pointer, is_text)
        case inspect.StructType():
            yield from find_object_errors(value, kind, pointer)
        case inspect.DictType() if isinstance(value, dict):
            yield from check_length(len(value), kind, pointer, "entries")
            yield from find_name_errors(value, kind.key_type, pointer)
            yield from find_item_errors(value.items(), kind.value_type, pointer)
        case inspect.ListType() if isinstance(value, list):
            yield from check_length(len(value), kind, pointer, "items")
            yield from find_item_errors(enumerate(value), kind.item_type, pointer)
        case inspect.StrType() if isinstance(value, str):
            yield from find_text_errors(value, kind, pointer)
        case inspect.IntType() | inspect.FloatType():
            yield from find_number_errors(value, kind, pointer, is_text)
        case inspect.EnumType() | inspect.LiteralType():
            yield from find_choice_errors(value, list_choices(kind), pointer)
        case inspect.DateTimeType():
            yield from find_time_errors(value, kind, pointer)
        case _ if not fits(value, kind):
            yield wrong(pointer, kind, value)


def find_item_errors(items: Iterable[tuple[object, Any]], kind: inspect.Type, pointer: str) -> Errors:
    for place, item in items:
        yield from find_errors(item, kind, f"{pointer}/{escape(str(place))}")


def find_name_errors(names: Iterable[str], kind: inspect.Type, pointer: str) -> Errors:
    """Check the names of an object's entries."""
    for name in names:
        place = f"{pointer}/{escape(name)}"
        for error in find_errors(name, kind, place):
            yield FieldError(place, f"its name {error.detail}")


def find_union_errors(value: Any, kind: inspect.UnionType, pointer: str, is_text: bool) -> Errors:
    """Check the value against the member that it resembles."""
    fitting = [each for each in kind.types if fits(value, each)]
    if not fitting and len(left := [each for each in kind.types if not isinstance(each, inspect.NoneType)]) == 1:
        fitting = left  # null needs no mention
    if fitting:
        yield from find_errors(value, fitting[0], pointer, is_text=is_text)
    else:
        yield wrong(pointer, kind, value)


def find_object_errors(value: Any, kind: inspect.StructType, pointer: str) -> Errors:
    if not isinstance(value, dict):
        yield wrong(pointer, kind, value)
        return
    fields = {field.encode_name: field for field in kind.fields}
    for name, item in value.items():
        place = f"{pointer}/{escape(name)}"
        if name in fields:
            yield from find_errors(item, fields[name].type, place)
        elif kind.forbid_unknown_fields:
            missing = [each for each in fields if each not in value]
            yield FieldError(place, say_unknown("field", name[:MAX_SHOWN], missing or list(fields)))
    for name, field in fields.items():
        if field.required and name not in value:
            is_any = isinstance(field.type, inspect.AnyType)
            text = "is missing" if is_any else f"is missing; it must be {describe(field.type)}"
            yield FieldError(f"{pointer}/{escape(name)}", text)


def find_choice_errors(value: Any, choices: list[str], pointer: str) -> Errors:
    if value in choices:
        return
    text = f"must be one of {', '.join(choices)}; got {show(value)}"
    meant = suggest(value, choices) if isinstance(value, str) else None
    yield FieldError(pointer, f"{text}; did you mean '{meant}'?" if meant else text)


def find_text_errors(value: str, kind: inspect.StrType, pointer: str) -> Errors:
    if kind.min_length and not value:
        yield FieldError(pointer, "must not be empty")
        return
    yield from check_length(len(value), kind, pointer, "characters")
    if kind.pattern is not None and not re.search(kind.pattern, value):
        yield FieldError(pointer, PATTERNS.get(kind.pattern, f"must match {kind.pattern}"))


def find_number_errors(value: Any, kind: inspect.IntType | inspect.FloatType, pointer: str, is_text: bool) -> Errors:
    number = read_number(value) if is_text and isinstance(value, str) else value
    if not is_number(number) or (isinstance(kind, inspect.IntType) and isinstance(number, float)):
        yield wrong(pointer, kind, value)
        return
    unit = find_unit(pointer)
    if number > (math.inf if kind.le is None else kind.le):
        yield FieldError(pointer, f"must be at most {kind.le}{unit}, got {show(number)}")
    elif kind.ge is not None and number < kind.ge:
        yield FieldError(pointer, f"must be at least {kind.ge}{unit}, got {show(number)}")
    elif kind.gt is not None and number <= kind.gt:
        yield FieldError(pointer, f"must be over {kind.gt}{unit}, got {show(number)}")


def find_time_errors(value: Any, kind: inspect.DateTimeType, pointer: str) -> Errors:
    """Check a time. It needs a zone: without one, machines disagree about it."""
    if isinstance(value, str):
        try:
            msgspec.convert(value, Annotated[datetime, msgspec.Meta(tz=kind.tz)])
        except msgspec.ValidationError:
            pass
        else:
            return
    yield FieldError(pointer, explain_time(value))


def explain_time(value: Any) -> str:
    """Return why a value is no time."""
    text = f"must be a time like {TIME_EXAMPLE}, got {show(value)}"
    if isinstance(value, str):
        if LACKS_ZONE.fullmatch(value):
            return f"{text}, which lacks a time zone; end it with Z for UTC, or with an offset like +02:00"
        if ENDS_IN_DATE.fullmatch(value):
            return f"{text}, which lacks the time of the day"
        if " " in value and LACKS_ZONE.match(value):
            return f"{text}; write + in a URL as %2B"
    return text


def read_number(text: str) -> float | None:
    if WHOLE.fullmatch(text):
        return int(text)
    return float(text) if DECIMAL.fullmatch(text) else None


def check_length(length: int, kind: Any, pointer: str, unit: str) -> Errors:
    if kind.max_length is not None and length > kind.max_length:
        yield FieldError(pointer, f"must have at most {kind.max_length} {unit}, got {length}")
    if kind.min_length is not None and length < kind.min_length:
        yield FieldError(pointer, f"must have at least {kind.min_length} {unit}, got {length}")


def wrong(pointer: str, kind: inspect.Type, value: Any) -> FieldError:
    return FieldError(pointer, f"must be {describe(kind, find_unit(pointer))}, got {show(value)}")
