"""Validation of a subscription's headers and event patterns. The header rules are in common/webhook_headers.py."""

from datetime import UTC, datetime

import msgspec
import pytest
from cryptography.fernet import Fernet

from common import ids
from common.security.encryption import Encryptor
from services.gateway.http.problems import Problem
from services.gateway.webhooks.audit_entries import read_headers
from services.gateway.webhooks.schemas import ChangeWebhook, CreateWebhook, Format
from services.gateway.webhooks.store import WebhookRow
from services.gateway.webhooks.subscriptions import (
    apply_change,
    check_headers,
    check_models,
    check_patterns,
    check_signing,
    complete,
    find_origin,
    restore_hidden,
)

ENCRYPTOR = Encryptor([Fernet.generate_key().decode()])
WEBHOOK = WebhookRow(
    id=ids.new(),
    url="https://a.example/x",
    events=["job.*"],
    models=None,
    description=None,
    headers=ENCRYPTOR.encrypt(msgspec.json.encode({"X-Key": "k"})),
    signing="hmac",
    secret=b"",
    created_at=datetime.now(UTC),
    rate_limit=None,
    ordered=False,
    disabled_at=None,
    disabled_reason=None,
)


def test_custom_headers_are_allowed() -> None:
    assert check_headers({"Authorization": "Bearer a b", "X-Api-Key": "~"}) == []


@pytest.mark.parametrize(
    ("name", "pointer"), [("", "/headers/"), ("a b", "/headers/a b"), ("a/~\n", "/headers/a~1~0\n")]
)
def test_an_invalid_name_is_refused_with_its_pointer(name: str, pointer: str) -> None:
    assert [error.pointer for error in check_headers({name: "v"})] == [pointer]


@pytest.mark.parametrize("name", ["Host", "content-length", "WEBHOOK-ID", "webhook-anything", "Traceparent"])
def test_reserved_headers_are_refused_in_any_case(name: str) -> None:
    assert [error.pointer for error in check_headers({name: "v"})] == [f"/headers/{name}"]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: b", "a\nb", "a\x00b"])
def test_values_with_control_characters_are_refused(value: str) -> None:
    assert [error.pointer for error in check_headers({"X-A": value})] == ["/headers/X-A"]


def test_a_duplicate_header_is_refused() -> None:
    (error,) = check_headers({"X-A": "1", "X-B": "1", "x-a": "2"})
    assert (error.pointer, "X-A" in error.detail) == ("/headers/x-a", True)


def test_every_invalid_header_is_reported() -> None:
    found = check_headers({"Host": "v", "X-A": "fine", "X-B": "\n"})
    assert [error.pointer for error in found] == ["/headers/Host", "/headers/X-B"]


def test_a_wildcard_in_the_name_of_a_model_is_refused() -> None:
    found = check_models(["ocr", "ocr*", "o?r", "[o]cr", "ocr]"])
    assert [error.pointer for error in found] == ["/models/1", "/models/2", "/models/3", "/models/4"]
    assert {error.detail.partition(";")[2] for error in found} == {" list each model, or leave `models` out for all"}


def test_a_hidden_value_is_the_present_one() -> None:
    found = restore_hidden({"x-key": "***", "X-New": "n"}, {"X-Key": "k", "X-Old": "o"})
    assert found == {"x-key": "k", "X-New": "n"}


def test_a_hidden_value_of_a_new_header_is_refused() -> None:
    with pytest.raises(Problem) as caught:
        restore_hidden({"X-Key": "***", "X-A/B": "***"}, {"X-Key": "k"})
    assert [error.pointer for error in caught.value.errors] == ["/headers/X-A~1B"]


@pytest.mark.parametrize("headers", [{"X-Key": "***"}, msgspec.UNSET])
def test_hidden_values_stay_behind_at_another_origin(headers: dict[str, str] | msgspec.UnsetType) -> None:
    moved = apply_change(WEBHOOK, ChangeWebhook(url="https://a.example/y", headers=headers), ENCRYPTOR)
    assert read_headers(moved, ENCRYPTOR) == {"X-Key": "k"}
    with pytest.raises(Problem):
        apply_change(WEBHOOK, ChangeWebhook(url="https://b.example/x", headers=headers), ENCRYPTOR)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("https://a.example/x", "https://A.example:443/y?z", True),
        ("https://a.example/", "https://a.example:444/", False),
        ("https://a.example/", "http://a.example:443/", False),
        ("https://a.example/", "https://b.example/", False),
        ("https://[2001:DB8::1]/", "https://[2001:db8::1]/x", True),
    ],
)
def test_an_origin_is_the_scheme_the_host_and_the_port(first: str, second: str, same: bool) -> None:
    assert (find_origin(first) == find_origin(second)) is same


@pytest.mark.parametrize(
    "pattern", ["job.succeeded", "job.*", "*.succeeded", "*.*", "*", "batch.completed", "webhook.*"]
)
def test_a_pattern_that_matches_an_event_is_allowed(pattern: str) -> None:
    assert check_patterns([pattern], "charonia") == []


@pytest.mark.parametrize(
    "pattern", ["", "job.", "Job.*", "job.*.x", "**", "job.suc*", "job succeeded", "job.succeeded\n", "x", "job.nope"]
)
def test_a_pattern_that_matches_no_event_is_refused(pattern: str) -> None:
    (error,) = check_patterns([pattern], "charonia")
    assert error.pointer == "/events/0"
    assert "job.succeeded" in error.detail


def test_each_format_has_its_own_events() -> None:
    assert check_patterns(["response.completed", "batch.cancelled", "*.incomplete", "*"], "openai") == []
    (error,) = check_patterns(["job.succeeded"], "openai")
    assert "response.completed" in error.detail
    (error,) = check_patterns(["response.completed"], "charonia")
    assert error.pointer == "/events/0"


@pytest.mark.parametrize(("form", "events"), [("charonia", ["job.*"]), ("openai", ["*"])])
def test_a_new_subscription_gets_the_events_of_its_format(form: Format, events: list[str]) -> None:
    assert complete(CreateWebhook(url="https://a.example", format=form)).events == events
    given = CreateWebhook(url="https://a.example", format=form, events=["batch.*"])
    assert complete(given) is given


def test_openais_clients_verify_no_ed25519() -> None:
    (error,) = check_signing(CreateWebhook(url="https://a.example", format="openai", signing="ed25519"))
    assert error.pointer == "/signing"
    assert check_signing(CreateWebhook(url="https://a.example", signing="ed25519")) == []
