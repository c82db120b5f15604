"""What the docs say is so."""

import re
import time
from pathlib import Path

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


def test_a_receiver_can_copy_the_verification_by_hand() -> None:
    code = next(block for block in BLOCK.findall((DOCS / "webhooks.md").read_text()) if "def is_genuine" in block)
    copied: dict[str, object] = {}
    exec(code, copied)  # noqa: S102 -- that is what its readers do
    is_genuine = copied["is_genuine"]
    assert callable(is_genuine)
    secret, body, now = signing.new_secret("hmac"), '{"größe": 1}'.encode(), int(time.time())
    headers = {
        "webhook-id": "dlv_1",
        "webhook-timestamp": str(now),
        "webhook-signature": signing.sign([signing.new_secret("hmac"), secret], "dlv_1", now, body),
    }
    assert is_genuine(secret, headers, body)
    assert not is_genuine(secret, headers, body + b" ")
    assert not is_genuine(signing.new_secret("hmac"), headers, body)
    old = str(now - 1000)
    stale = {
        **headers,
        "webhook-timestamp": old,
        "webhook-signature": signing.sign([secret], "dlv_1", now - 1000, body),
    }
    assert not is_genuine(secret, stale, body)


def test_every_error_of_a_delivery_is_named() -> None:
    text = (DOCS / "webhooks.md").read_text().split("## Names of errors")[1]
    for fault in Fault:
        assert re.search(rf"\b{fault}\b", text)
