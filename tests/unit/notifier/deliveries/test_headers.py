"""The headers of a webhook."""

import pytest

from services.notifier.deliveries.headers import compose


def write(custom: dict[str, str]) -> dict[str, str]:
    return compose(custom, message_id="dlv_1", timestamp=17, signature="v1,abc", traceparent="00-a-b-01")


def test_our_headers_are_complete() -> None:
    headers = write({})
    assert headers.pop("user-agent").startswith("Charonia/")
    assert headers == {
        "accept-encoding": "identity",
        "content-type": "application/json",
        "webhook-id": "dlv_1",
        "webhook-timestamp": "17",
        "webhook-signature": "v1,abc",
        "traceparent": "00-a-b-01",
    }


def test_custom_headers_are_added() -> None:
    assert write({"Authorization": "Bearer x", "X-Team": "ocr"}).items() >= {
        ("authorization", "Bearer x"),
        ("x-team", "ocr"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "Webhook-Id",
        "WEBHOOK-SIGNATURE",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "TraceParent",
        "Proxy-Authorization",
    ],
)
def test_reserved_headers_cannot_be_set(name: str) -> None:
    assert write({name: "evil"}) == write({})


@pytest.mark.parametrize(
    ("name", "value"), [("X-A", "b\r\nX-C: d"), ("X A", "b"), ("", "b"), ("X-A\n", "b"), ("X-A", "ü")]
)
def test_invalid_headers_are_left_out(name: str, value: str) -> None:
    assert write({name: value}) == write({})
