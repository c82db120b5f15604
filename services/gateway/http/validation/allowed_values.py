"""What a type allows, and how a value is shown, in words that fit any client's language. Pure."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, TypeGuard

from msgspec import inspect

TIME_EXAMPLE = "2026-12-01T10:00:00Z"
MAX_SHOWN = 60  # characters of a value in a text
LARGEST_SHOWN = 10**40  # number
# Fields and parameters in seconds.
SECONDS = frozenset({"wait", "timeout", "expires_in", "retain", "initial_delay", "max_delay", "grace_period"})


def find_unit(pointer: str) -> str:
    return " seconds" if pointer.rpartition("/")[2] in SECONDS else ""


def fits(value: Any, kind: inspect.Type) -> bool:
    """Return whether a value has the kind of JSON value that a type needs, whatever its bounds."""
    match kind:
        case inspect.Metadata():
            return fits(value, kind.type)
        case inspect.UnionType():
            return any(fits(value, each) for each in kind.types)
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType() | inspect.FloatType():
            return is_number(value)
        case inspect.StrType() | inspect.EnumType() | inspect.LiteralType() | inspect.DateTimeType():
            return isinstance(value, str)
        case inspect.ListType():
            return isinstance(value, list)
        case inspect.DictType() | inspect.StructType():
            return isinstance(value, dict)
        case _:
            return True


def describe(kind: inspect.Type, unit: str = "") -> str:
    """Return what a type allows, as the end of "must be"."""
    match kind:
        case inspect.Metadata() if is_raw_object(kind):
            return "an object"
        case inspect.Metadata():
            return describe(kind.type, unit)
        case inspect.UnionType():
            return " or ".join(dict.fromkeys(describe(each, unit) for each in select_shown(kind.types)))
        case inspect.NoneType():
            return "null"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType():
            name = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
            return f"{name}{f' of{unit}' if unit else ''}{describe_bounds(kind)}"
        case inspect.EnumType() | inspect.LiteralType():
            return f"one of {', '.join(list_choices(kind))}"
        case inspect.DateTimeType():
            return f"a time like {TIME_EXAMPLE}"
        case inspect.ListType():
            return "a list"
        case inspect.DictType():
            return "an object"
        case inspect.StructType():
            required = (field for field in kind.fields if field.required)
            example = ", ".join(f'"{field.encode_name}": {give_example(field)}' for field in required)
            return f"an object like {{{example}}}" if example else "an object"
        case _:
            return "a string"


def select_shown(kinds: Sequence[inspect.Type]) -> list[inspect.Type]:
    """Return the kinds that are worth mentioning: a number may be whole, and null is as good as nothing."""
    hidden: tuple[type, ...] = (inspect.NoneType,)
    if any(isinstance(each, inspect.FloatType) for each in kinds):
        hidden += (inspect.IntType,)
    return [each for each in kinds if not isinstance(each, hidden)]


def describe_bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    low = f" from {kind.ge}" if kind.ge is not None else ""
    low = f" over {kind.gt}" if kind.gt is not None else low
    high = f" to {kind.le}" if kind.le is not None else ""
    return f"{low}{high}" if low else high.replace(" to ", " up to ")


def give_example(field: inspect.Field) -> str:
    kind: inspect.Type = field.type
    while isinstance(kind, inspect.Metadata):
        if is_raw_object(kind):
            return "{…}"
        if examples := (kind.extra_json_schema or {}).get("examples"):
            return f'"{examples[0]}"'
        kind = kind.type
    match kind:
        case inspect.LiteralType(values=(only,)):
            return f'"{only}"'
        case inspect.StrType() if field.encode_name == "url":
            return '"https://…"'
        case inspect.DateTimeType():
            return f'"{TIME_EXAMPLE}"'
        case inspect.ListType() | inspect.AnyType():
            return "[…]"
        case inspect.IntType() | inspect.FloatType():
            return "1"
        case inspect.UnionType() | inspect.DictType() | inspect.StructType():
            return "{…}"
        case _:
            return '"…"'


def is_raw_object(kind: inspect.Metadata) -> bool:
    """Return whether this is an object whose JSON is kept as it came: its type alone does not say so."""
    return (kind.extra_json_schema or {}).get("type") == "object"


def list_choices(kind: inspect.EnumType | inspect.LiteralType) -> list[str]:
    values: Iterable[Any] = kind.cls if isinstance(kind, inspect.EnumType) else kind.values
    return [str(each.value) if isinstance(each, Enum) else str(each) for each in values]


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def show_number(value: float) -> str:
    if abs(value) >= LARGEST_SHOWN:
        return "a very large number"
    return str(value)


def show(value: Any) -> str:
    """Return a value in a text: short ones as they are in JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return show_number(value)
        case str():
            return f"'{value}'" if len(value) <= MAX_SHOWN else f"'{value[:MAX_SHOWN]}…'"
        case list():
            return "a list"
        case _:
            return "an object"
