"""Checks the options of a job beyond their types. Pure."""

from collections.abc import Mapping
from itertools import islice

import msgspec

from common.job_options import RetryOptions
from services.gateway.http.problems import FieldError, escape

MAX_PARAMETERS = 100
MAX_PARAMETER_BYTES = 64 * 1024  # of all of them as JSON; they are in the job's row
RESERVED_PREFIX = "triton_"  # of Triton's own parameters
NO_SEQUENCES = "sequences are not supported, because each job may run on any instance; send the state as an input"
# What Triton itself reads of the parameters of a gRPC request (docs/protocol/extension_parameters.md and
# extension_sequence.md of its server), each with what to do instead.
TRITON_PARAMETERS = {
    "priority": "the job's own `priority` decides; set that instead",
    "timeout": "the job's own `timeout`, in seconds, decides; set that instead",
    "sequence_id": NO_SEQUENCES,
    "sequence_start": NO_SEQUENCES,
    "sequence_end": NO_SEQUENCES,
}


def find_retry_errors(retry: RetryOptions) -> list[FieldError]:
    """Return the errors of `/retry`."""
    if retry.effective_max_delay < retry.initial_delay:
        return [FieldError("/retry/max_delay", "must be at least initial_delay")]
    return []


def find_parameter_errors(parameters: Mapping[str, bool | int | float | str] | None) -> list[FieldError]:
    """Return the errors of `/parameters`."""
    if not parameters:
        return []
    errors = []
    for name, value in islice(parameters.items(), MAX_PARAMETERS):
        pointer = f"/parameters/{escape(name)}"
        if name.startswith(RESERVED_PREFIX):
            errors.append(FieldError(pointer, f"names that begin with '{RESERVED_PREFIX}' are reserved for Triton"))
        if name in TRITON_PARAMETERS:
            errors.append(FieldError(pointer, f"is no parameter for the model: {TRITON_PARAMETERS[name]}"))
        if type(value) is int and not -(2**63) <= value < 2**63:
            errors.append(FieldError(pointer, "must fit in a signed 64-bit integer"))
    if len(parameters) > MAX_PARAMETERS:
        errors.append(FieldError("/parameters", f"must have at most {MAX_PARAMETERS} entries"))
    if len(msgspec.json.encode(parameters)) > MAX_PARAMETER_BYTES:
        text = f"must be at most {MAX_PARAMETER_BYTES} bytes of JSON; send large values as inputs"
        errors.append(FieldError("/parameters", text))
    return errors
