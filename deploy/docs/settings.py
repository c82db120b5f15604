"""The configuration reference, from the settings of the services and of the local stack.

The string under a field of a settings class describes it.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import msgspec

from common.postgres.migrate import MigrationSettings
from common.settings import PREFIX, Settings
from deploy.docs.markdown import table
from deploy.docs.schemas import show_type
from deploy.local.settings import ROOT
from deploy.local.settings import Settings as StackSettings
from services.dispatcher.settings import DispatcherSettings, MaintenanceSettings
from services.gateway.openapi.descriptions import read_descriptions
from services.gateway.settings import GatewaySettings
from services.notifier.settings import NotifierSettings

OF_SERVICES: dict[str, type[msgspec.Struct]] = {
    "every-service": Settings,
    "gateway": GatewaySettings,
    "maintenance": MaintenanceSettings,
    "dispatcher": DispatcherSettings,
    "notifier": NotifierSettings,
    "migration": MigrationSettings,
}
HEAD = ("variable", "type", "default", "description")
SIZE = 1024 * 1024


def write_settings(kind: type[msgspec.Struct], _page: str = "") -> str:
    """Return the variables that a class of settings adds to those of every service."""
    descriptions = read_descriptions(kind)
    schema = show_schema(kind)
    rows = []
    for field in msgspec.structs.fields(kind):
        if field.name in kind.__annotations__:
            default = "required" if field.required else show_default(field.default)
            shape = show_type(schema[field.name]) if field.type is not bool else "`true`, `false`"
            rows.append((f"`{PREFIX}{field.name.upper()}`", shape, default, descriptions[field.name]))
    return table(HEAD, rows)


def show_schema(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    _, components = msgspec.json.schema_components([kind])
    schema: dict[str, Any] = components[kind.__name__]["properties"]
    return schema


def show_default(value: object) -> str:
    match value:
        case msgspec.NODEFAULT | "" | ():
            return ""
        case bool():
            return f"`{value}`".lower()
        case tuple():
            return f"`{','.join(str(show_number(each)) for each in value)}`"
        case int() if value >= SIZE and value % SIZE == 0:
            return f"`{value}` ({value // SIZE} MiB)"
        case _:
            return f"`{show_number(value)}`"


def show_number(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def write_stack() -> str:
    """Return the variables of the local stack. `environment` and what has no plain value are for tests only."""
    descriptions = read_descriptions(StackSettings)
    rows = []
    for field in fields(StackSettings):
        if field.default is not MISSING and field.type in (int, Path, Path | None):
            default = field.default.relative_to(ROOT) if isinstance(field.default, Path) else field.default
            kind = "integer" if field.type is int else "path"
            rows.append((f"`{field.name.upper()}`", kind, f"`{default}`" if default else "", descriptions[field.name]))
    return table(HEAD, rows)
