"""What the docs say is so."""

import re
import time
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from common import signing
from common.settings import PREFIX
from deploy.local.settings import Settings as StackSettings
from services.dispatcher.settings import DispatcherSettings
from services.gateway.settings import GatewaySettings
from services.notifier.outcome import Fault
from services.notifier.settings import NotifierSettings

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
ROW = re.compile(r"^\| `(CHARONIA_\w+)` \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)
SERVICES: dict[str, type[msgspec.Struct]] = {
    "gateway": GatewaySettings,
    "dispatcher": DispatcherSettings,
    "notifier": NotifierSettings,
}


def read_variables() -> dict[str, tuple[str, str]]:
    """Each documented variable with who reads it, and its default."""
    return {name: (who, default) for name, who, default in ROW.findall((DOCS / "configuration.md").read_text())}


@pytest.mark.parametrize("service", SERVICES)
def test_every_variable_of_a_service_is_documented(service: str) -> None:
    documented = read_variables()
    for field in msgspec.structs.fields(SERVICES[service]):
        who, default = documented[PREFIX + field.name.upper()]
        assert service in who or who.startswith("all")
        assert ("required" in default) == field.required


def test_no_variable_is_documented_that_nobody_reads() -> None:
    read = {PREFIX + field.name.upper() for kind in SERVICES.values() for field in msgspec.structs.fields(kind)}
    assert read_variables().keys() == read


def test_every_variable_of_the_stack_is_documented() -> None:
    text = (DOCS / "configuration.md").read_text()
    for name in StackSettings.__dataclass_fields__.keys() - {"durable", "model_control", "environment"}:
        assert f"`{name.upper()}`" in text


@pytest.mark.parametrize(("name", "signing_kind"), [("is_genuine", "hmac"), ("is_genuine_ed25519", "ed25519")])
def test_a_receiver_can_copy_the_verification(name: str, signing_kind: Literal["hmac", "ed25519"]) -> None:
    blocks = BLOCK.findall((DOCS / "webhooks.md").read_text())
    copied: dict[str, object] = {}
    exec(next(block for block in blocks if f"def {name}(" in block), copied)  # noqa: S102 -- that is what its readers do
    is_genuine = copied[name]
    assert callable(is_genuine)
    secret, other = signing.new_secret(signing_kind), signing.new_secret(signing_kind)
    known, unknown = (secret, other) if signing_kind == "hmac" else map(signing.public_key, (secret, other))
    body, now = '{"größe": 1}'.encode(), int(time.time())

    def sign(at: int) -> dict[str, str]:
        signature = signing.sign([signing.new_secret(signing_kind), secret], "dlv_1", at, body)
        return {"webhook-id": "dlv_1", "webhook-timestamp": str(at), "webhook-signature": signature}

    assert is_genuine(known, sign(now), body)
    assert not is_genuine(known, sign(now), body + b" ")
    assert not is_genuine(unknown, sign(now), body)
    assert not is_genuine(known, sign(now - 1000), body)


def test_every_error_of_a_delivery_is_named() -> None:
    text = (DOCS / "webhooks.md").read_text().split("## Names of errors")[1]
    for fault in Fault:
        assert re.search(rf"\b{fault}\b", text)
