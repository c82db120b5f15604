"""What the OpenAPI document says of parameters beyond what Litestar knows."""

from typing import Any

from common import ids
from services.gateway.openai.ids import ANY_FILE, Prefix

NULL = {"type": "null"}
# The parameters in paths, and the prefixes of those that are ids. Their patterns are only documented: nothing can have
# a malformed id, so it gets 404.
IN_PATH: dict[str, tuple[str, str | None]] = {
    "job_id": ("The id of the job.", ids.Kind.JOB),
    "batch_id": ("The id of the batch.", ids.Kind.BATCH),
    "webhook_id": ("The id of the subscription.", ids.Kind.WEBHOOK),
    "recovery_id": ("The id of the recovery.", ids.Kind.RECOVERY),
    "delivery_id": ("The id of the delivery.", ids.Kind.DELIVERY),
    "file_id": ("The id of the file.", ids.Kind.FILE),
    "openai_file_id": ("The id of the file: one that was uploaded, or one of a batch.", ANY_FILE),
    "key_id": ("The id of the key.", ids.Kind.KEY),
    "response_id": ("The id of the response.", Prefix.RESPONSE),
    "name": ("The name of the model.", None),
    "model": ("The name of the model.", None),
    "pipeline": ("The name of the pipeline.", None),
    "version": ("The name of the version.", None),
}


def describe_parameters(operation: dict[str, Any]) -> None:
    """Describe the parameters in a call's path, and say that no parameter can be null: text has no null."""
    for parameter in operation.get("parameters", []):
        parameter["schema"] = drop_null(parameter["schema"])
        if parameter["in"] == "path":
            parameter["description"], prefix = IN_PATH[parameter["name"]]
            if prefix is not None:
                parameter["schema"]["pattern"] = ids.make_pattern(prefix)


def drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without null. Litestar describes a parameter that may be absent as one that may be null."""
    shown = schema | {}
    match schema:
        case {"oneOf": [dict() as only, {"type": "null"}]}:
            del shown["oneOf"]
            shown |= only
        case {"type": ["null", kind], "enum": [*choices, None]}:
            shown |= {"type": kind, "enum": choices}
    return shown
