"""Descriptions of the fields of bodies, from the string under each field of a class, as in settings."""

import ast
import inspect
import textwrap
from functools import cache

import msgspec


def describe_fields(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the descriptions of the fields of a class, inherited ones included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each not in (object, msgspec.Struct) and issubclass(each, msgspec.Struct):
            found |= read_descriptions(each)
    return found


@cache
def read_descriptions(kind: type) -> dict[str, str]:
    """Return the string under each field of a class, which must have source code."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found
