"""The Helm chart: the names of settings in its schema, and the table of its values.

A value's description is in `values.schema.json`. The comment above it in `values.yaml` is the same.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from common.settings import PREFIX, Settings
from deploy.docs.markdown import table
from deploy.local.settings import ROOT
from services.dispatcher.settings import DispatcherSettings, MaintenanceSettings
from services.gateway.settings import GatewaySettings
from services.notifier.settings import NotifierSettings

CHART = ROOT / "deploy" / "kubernetes" / "charonia"
SCHEMA = CHART / "values.schema.json"
VALUES = CHART / "values.yaml"
README = CHART / "README.md"
HEAD = ("value", "default", "description")
OF_SERVICES: dict[str, type[msgspec.Struct]] = {
    "settingsGateway": GatewaySettings,
    "settingsDispatcher": DispatcherSettings,
    "settingsNotifier": NotifierSettings,
}
SECRET = {
    "database_url",
    "amqp_url",
    "encryption_keys",
    "url_keys",
    "bootstrap_key",
    "egress_proxy",
    "triton_headers",
    "triton_repository_key",
}
OF_THE_CHART = {
    "port",
    "shutdown_grace",
    "triton_url",
    "models",
    "fetch_folder",
    "max_fetched_bytes",
    "pod_name",
    "service_account",
    "worker",
}
WITHOUT_USE = {"development", "triton_tls", "triton_tls_ca", "triton_tls_certificate", "triton_tls_key"}
LONGEST = 60  # characters of a default in the table


def list_settings(kind: type[msgspec.Struct]) -> set[str]:
    """Return the variables of a service that values may set: not secrets, nor what the chart sets itself."""
    names = {field.name for field in msgspec.structs.fields(kind)} - SECRET - OF_THE_CHART - WITHOUT_USE
    return {PREFIX + name.upper() for name in names}


def list_shared() -> set[str]:
    """Return the variables that must be the same for all dispatchers and the maintenance: only `settings` has them."""
    return list_settings(MaintenanceSettings) - list_settings(Settings)


def renew_schema(text: str) -> str:
    """Return the schema of the values with the names that the services' settings have now."""
    schema = json.loads(text)
    names = {definition: list_settings(kind) for definition, kind in OF_SERVICES.items()}
    every = set().union(*names.values())
    names["settingsDispatcher"] -= list_shared()
    for definition, found in (names | {"settingsAll": every}).items():
        schema["$defs"][definition]["propertyNames"] = {"enum": sorted(found)}
    return json.dumps(schema, indent=2) + "\n"


def write_values() -> str:
    """Return the table of all values."""
    schema, values = json.loads(SCHEMA.read_text()), yaml.safe_load(VALUES.read_text())
    rows = [(f"`{path}`", show_default(default), text) for path, default, text in list_values(schema, values)]
    return table(HEAD, rows)


def list_values(
    schema: Mapping[str, Any], values: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, str]]:
    """Yield the path, the default and the description of each value in values.yaml. A group has no default."""
    for name, default in values.items():
        found = schema["properties"][name]
        group = "properties" in found
        yield f"{prefix}{name}", None if group else default, found["description"]
        if group:
            yield from list_values(found, default, f"{prefix}{name}.")


def show_default(value: object) -> str:
    if value in (None, ""):
        return ""
    text = json.dumps(value) if not isinstance(value, str) else value
    return f"`{text}`" if len(text) <= LONGEST else "see values.yaml"
