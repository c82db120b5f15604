"""The notifier's settings."""

import pytest

from common.errors import SettingsError
from common.settings import load
from services.notifier.settings import NotifierSettings

REQUIRED = {
    "CHARONIA_DATABASE_URL": "postgresql://db",
    "CHARONIA_AMQP_URL": "amqp://mq",
    "CHARONIA_PORT": "8002",
    "CHARONIA_ENCRYPTION_KEYS": "new, old",
}


def test_defaults_are_the_documented_ones() -> None:
    settings = load(NotifierSettings, REQUIRED)
    assert settings.encryption_keys == ("new", "old")
    assert list(settings.delivery_schedule) == [0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]
    assert not settings.webhook_http
    assert not settings.webhook_networks
    assert settings.delivery_timeout == 15.0


def test_lists_are_separated_by_commas() -> None:
    values = {"CHARONIA_DELIVERY_SCHEDULE": "0,0.5, 0.5", "CHARONIA_WEBHOOK_NETWORKS": "127.0.0.0/8,::1/128"}
    settings = load(NotifierSettings, REQUIRED | values)
    assert settings.delivery_schedule == (0.0, 0.5, 0.5)
    assert settings.webhook_networks == ("127.0.0.0/8", "::1/128")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHARONIA_ENCRYPTION_KEYS", ""),
        ("CHARONIA_DELIVERY_SCHEDULE", ","),
        ("CHARONIA_DELIVERY_SCHEDULE", "0,-1"),
        ("CHARONIA_DELIVERY_SCHEDULE", "soon"),
        ("CHARONIA_DELIVERY_TIMEOUT", "0"),
        ("CHARONIA_DELIVERY_TIMEOUT", "nan"),
        ("CHARONIA_DELIVERY_CONCURRENCY", "0"),
        ("CHARONIA_WEBHOOK_HTTP", "perhaps"),
    ],
)
def test_an_error_names_the_invalid_variable(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load(NotifierSettings, REQUIRED | {name: value})
