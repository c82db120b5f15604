"""The tables of error codes, from the code that raises them. Their meanings stay as people wrote them on the page."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from http import HTTPStatus

from deploy.docs.markdown import read_last_cells, table
from deploy.local.settings import ROOT
from services.notifier.delivery_attempts.result import AttemptError

# Written for an exception of Litestar or of the parser of requests, by its status.
BY_STATUS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
)
OF_JOBS = (  # the folder, the class, and which of its arguments is the code
    ("services/dispatcher", "Failure", 0),
    ("services/dispatcher", "Rule", 1),
    ("common/runs", "Failure", 0),
)
WITHOUT_CODE = "open_inference"  # its errors have a text only, but those of a job under OpenAI's calls, too
WITH_CODE = "inference.py"


def write_http_errors(page: str) -> str:
    return write_codes(("code", "status", "meaning"), find_problems(), page)


def write_job_errors(page: str) -> str:
    return write_codes(("code", "retryable", "meaning"), find_failures(), page)


def write_delivery_errors(page: str) -> str:
    meanings = read_last_cells(page)
    return table(("code", "meaning"), ((f"`{error}`", meanings.get(error, "")) for error in sorted(AttemptError)))


def write_codes(head: tuple[str, ...], found: Iterable[tuple[str, str]], page: str) -> str:
    """Write a row for each code, with the meaning that the page gives."""
    details: dict[str, set[str]] = defaultdict(set)
    for code, detail in found:
        details[code].add(detail)
    meanings = read_last_cells(page)
    rows = ((f"`{code}`", ", ".join(sorted(details[code])), meanings.get(code, "")) for code in sorted(details))
    return table(head, rows)


def find_problems() -> Iterator[tuple[str, str]]:
    """Yield the code and status of each `Problem(HTTPStatus.…, "code", …)` of the gateway."""
    for status in BY_STATUS:
        yield status.phrase.lower().replace(" ", "_"), str(int(status))
    for call, _ in find_calls("services/gateway", "Problem"):
        match call.args:
            case [ast.Attribute(attr=name), ast.Constant(value=str(code)), *_]:
                yield code, str(int(HTTPStatus[name]))


def find_failures() -> Iterator[tuple[str, str]]:
    """Yield the code of each `Failure("code", text, retryable)` and `Rule(pattern, "code", retryable=…)`."""
    for folder, name, place in OF_JOBS:
        for call, constants in find_calls(folder, name):
            retryable = [*call.args[2:3], *(each.value for each in call.keywords if each.arg == "retryable")]
            match call.args[place], retryable:
                case ast.Constant(value=str(code)), [ast.Constant(value=bool(yes))]:
                    yield code, "yes" if yes else "no"
                case ast.Name(id=constant), [ast.Constant(value=bool(yes))] if constant in constants:
                    yield constants[constant], "yes" if yes else "no"


def find_calls(folder: str, name: str) -> Iterator[tuple[ast.Call, dict[str, str]]]:
    """Yield the calls of a name, each with the constant texts of its module."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.parent.name == WITHOUT_CODE and path.name != WITH_CODE:
            continue
        module = ast.parse(path.read_text())
        constants = {}
        for statement in module.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=constant)], value=ast.Constant(value=str(text))):
                    constants[constant] = text
        for node in ast.walk(module):
            match node:
                case ast.Call(func=ast.Name(id=called)) if called == name:
                    yield node, constants
