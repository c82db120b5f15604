"""The forms of errors of the protocols that are not Charonia's own, by the beginning of their paths."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeAlias

import msgspec

from services.gateway.http.problems import PROTOCOL, Problem, ProtocolError

STATE = "error_shapes"  # the name in the state of the application
ErrorShape: TypeAlias = Callable[[Problem], tuple[HTTPStatus, msgspec.Struct]]
ErrorShapes: TypeAlias = Mapping[str, ErrorShape]  # by the beginning of the path


def shape_protocol(problem: Problem) -> tuple[HTTPStatus, ProtocolError]:
    """Answer like Triton, whose clients show only the text."""
    status = problem.status
    if status is HTTPStatus.UNPROCESSABLE_ENTITY:
        status = HTTPStatus.BAD_REQUEST
    return status, ProtocolError(problem.detail)


PROTOCOL_SHAPES: ErrorShapes = {PROTOCOL: shape_protocol}


def find_shape(shapes: ErrorShapes, path: str) -> ErrorShape | None:
    """Return the form of errors at a path, or None for a problem document."""
    return next((shape for prefix, shape in shapes.items() if path.startswith(prefix)), None)
