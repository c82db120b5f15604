"""Settings from the environment."""

from pathlib import Path

import msgspec
import pytest

from common.errors import SettingsError
from common.server_urls import is_server_url
from common.settings import Settings, load
from services.dispatcher.settings import DispatcherSettings
from services.gateway.settings import GatewaySettings

GATEWAY = {
    "CHARONIA_DATABASE_URL": "postgresql://d",
    "CHARONIA_AMQP_URL": "amqp://a",
    "CHARONIA_PORT": "1",
    "CHARONIA_ENCRYPTION_KEYS": "k",
    "CHARONIA_URL_KEYS": "k",
    "CHARONIA_STORE_URL": "file:///store",
}


class Sample(msgspec.Struct, frozen=True):
    name: str
    count: int = 1
    ratio: float = 0.5
    loud: bool = False
    hosts: tuple[str, ...] = ()
    delays: list[float] = []


def test_fields_are_read_from_their_variables() -> None:
    values = {
        "CHARONIA_NAME": "n",
        "CHARONIA_COUNT": "3",
        "CHARONIA_RATIO": "2",
        "CHARONIA_LOUD": "true",
        "CHARONIA_HOSTS": " a, b,,",
        "CHARONIA_DELAYS": "0,1.5",
        "CHARONIA_OTHER": "ignored",
        "COUNT": "ignored",
    }
    assert load(Sample, values) == Sample("n", 3, 2.0, True, ("a", "b"), [0.0, 1.5])


def test_empty_is_unset() -> None:
    assert load(Sample, {"CHARONIA_NAME": "n", "CHARONIA_COUNT": ""}) == Sample("n")


@pytest.mark.parametrize("environ", [{}, {"CHARONIA_NAME": ""}])
def test_a_missing_variable_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_NAME is not set, "):
        load(Sample, environ)


@pytest.mark.parametrize(
    ("name", "value"),
    [("COUNT", "many"), ("COUNT", "1.5"), ("RATIO", "x"), ("LOUD", "perhaps"), ("DELAYS", "1,x")],
)
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^CHARONIA_{name} is wrong: "):
        load(Sample, {"CHARONIA_NAME": "n", f"CHARONIA_{name}": value})


def test_a_wrong_boolean_says_what_is_allowed() -> None:
    with pytest.raises(SettingsError, match=r"^CHARONIA_LOUD is wrong: expected true or false$"):
        load(Sample, {"CHARONIA_NAME": "n", "CHARONIA_LOUD": "flase"})


@pytest.mark.parametrize(
    ("variable", "scheme"), [("CHARONIA_DATABASE_URL", "postgresql"), ("CHARONIA_AMQP_URL", "amqp")]
)
@pytest.mark.parametrize(
    "rest", ["u:s3/cret@h:1/d", "u:12/s3cret@h/d", "u:s3#cret@h/d", "u:s3?cret@h/d", "u:[s3cret@h/d"]
)
def test_a_password_that_is_not_encoded_is_refused_and_not_shown(variable: str, scheme: str, rest: str) -> None:
    good = {"CHARONIA_DATABASE_URL": "postgres://d", "CHARONIA_AMQP_URL": "amqp://a", "CHARONIA_PORT": "1"}
    with pytest.raises(SettingsError, match=rf"^{variable} is wrong: .* percent-encoded\.$") as raised:
        load(Settings, good | {variable: f"{scheme}://{rest}"})
    assert not any(part in str(raised.value) for part in ("s3", "cret", "12"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:s3%2F%23%3F%40cret@h:5432/d",
        "postgresql://u@h1:1,h2:2/d?target_session_attrs=any",
        "postgresql:///d?host=/run/postgresql",
        "postgresql://%2Frun%2Fpostgresql/d",
    ],
)
def test_urls_that_clients_can_parse_are_accepted(url: str) -> None:
    assert is_server_url(url)


@pytest.mark.parametrize(
    ("variable", "url", "parameter"),
    [
        ("CHARONIA_DATABASE_URL", "postgresql://u:s3cret@h/d?sslmode=verify-full&sslrootcert=", "sslrootcert"),
        ("CHARONIA_AMQP_URL", "amqps://u:s3cret@h/v?cafile=", "cafile"),
    ],
)
def test_a_certificate_that_is_missing_is_named(variable: str, url: str, parameter: str, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    environment = {"CHARONIA_DATABASE_URL": "postgres://d", "CHARONIA_AMQP_URL": "amqp://a", "CHARONIA_PORT": "1"}
    environment[variable] = f"{url}{file}"
    with pytest.raises(SettingsError, match=rf"^{variable} is wrong: no file is at {parameter}={file}\. ") as raised:
        load(Settings, environment)
    assert "s3cret" not in str(raised.value)
    file.touch()
    load(Settings, environment)


@pytest.mark.parametrize("url", ["postgresql://u:a@b@h/d", "postgresql://h/d?sslmode", "postgresql://h:70000/d"])
def test_other_urls_are_refused(url: str) -> None:
    assert not is_server_url(url)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BOOTSTRAP_KEY", "ch_dev"),
        ("ENCRYPTION_KEYS", "ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw="),
        ("ENCRYPTION_KEYS", "own, ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw="),
        ("URL_KEYS", "development-only-development-only"),
    ],
)
def test_example_keys_are_for_development_only(name: str, value: str) -> None:
    environ = GATEWAY | {f"CHARONIA_{name}": value}
    for flag in ("1", "true"):
        assert load(GatewaySettings, environ | {"CHARONIA_DEVELOPMENT": flag}).development
    for off in ({}, {"CHARONIA_DEVELOPMENT": "0"}):
        with pytest.raises(SettingsError, match=f"^CHARONIA_{name} is wrong: it has the example key") as raised:
            load(GatewaySettings, environ | off)
        assert value not in str(raised.value)


def test_metrics_have_a_port_of_their_own_or_none() -> None:
    assert load(GatewaySettings, GATEWAY | {"CHARONIA_METRICS_PORT": "0"}).metrics_port == 0
    with pytest.raises(SettingsError, match=r"^CHARONIA_METRICS_PORT is wrong: "):
        load(GatewaySettings, GATEWAY | {"CHARONIA_METRICS_PORT": "1"})


def test_no_file_is_kept_by_default_for_longer_than_the_most() -> None:
    assert load(GatewaySettings, GATEWAY).default_file_retention == 86_400
    assert load(GatewaySettings, GATEWAY | {"CHARONIA_MAX_FILE_RETENTION": "60"}).default_file_retention == 60


@pytest.mark.parametrize("value", ["ch_short", "x" * 15, "with spaces in it", "größe" * 4])
def test_a_key_that_can_be_guessed_is_refused(value: str) -> None:
    assert load(GatewaySettings, GATEWAY | {"CHARONIA_BOOTSTRAP_KEY": "x" * 16}).bootstrap_key == "x" * 16
    with pytest.raises(SettingsError, match=r"^CHARONIA_BOOTSTRAP_KEY is wrong: ") as raised:
        load(GatewaySettings, GATEWAY | {"CHARONIA_BOOTSTRAP_KEY": value})
    assert value not in str(raised.value)


def test_a_choice_is_one_of_its_words() -> None:
    required = {"CHARONIA_DATABASE_URL": "postgres://d", "CHARONIA_AMQP_URL": "amqp://a", "CHARONIA_PORT": "1"}
    assert load(Settings, required).log_format == "auto"
    with pytest.raises(SettingsError, match=r"^CHARONIA_LOG_FORMAT is wrong: "):
        load(Settings, required | {"CHARONIA_LOG_FORMAT": "xml"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("PORT", value) for value in ("0", "-1", "65536")],
        *[("LEASE", value) for value in ("0", "-1", "nan", "inf")],
        *[("SWEEP_INTERVAL", value) for value in ("0", "-1", "nan")],
        *[("RETENTION", value) for value in ("0", "nan", "inf", "1e11")],
        *[("PUBLIC_URL", value) for value in ("here", "ftp://h", "https://h/", "https://h/?a=1", "https://h x")],
        ("SLOTS", "-3"),
        ("MAX_TRITON_RESPONSE_BYTES", "0"),
        ("SHUTDOWN_GRACE", "-1"),
        ("DATABASE_URL", "foo"),
        ("AMQP_URL", "foo"),
        ("TRITON_URL", "http://x"),
        *[("STORE_URL", value) for value in ("folder", "file:///", "s3://", "s3:///p", "s3://b?x=1", "ftp://h/x")],
    ],
)
def test_values_that_no_service_can_run_with_are_refused(name: str, value: str) -> None:
    good = {
        "DATABASE_URL": "postgresql://d",
        "AMQP_URL": "amqp://a",
        "PORT": "1",
        "TRITON_URL": "localhost:8001",
        "URL_KEYS": "k",
        "STORE_URL": "file:///store",
    }
    environ = {f"CHARONIA_{key}": text for key, text in good.items()}
    load(DispatcherSettings, environ)
    with pytest.raises(SettingsError, match=f"^CHARONIA_{name} is wrong: "):
        load(DispatcherSettings, environ | {f"CHARONIA_{name}": value})
