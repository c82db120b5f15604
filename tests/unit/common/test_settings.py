"""Settings from the environment."""

import msgspec
import pytest

from common.errors import SettingsError
from common.settings import Settings, load
from services.dispatcher.settings import DispatcherSettings


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
    with pytest.raises(SettingsError, match=r"^CHARONIA_NAME is not set$"):
        load(Sample, environ)


@pytest.mark.parametrize(
    ("name", "value"),
    [("COUNT", "many"), ("COUNT", "1.5"), ("RATIO", "x"), ("LOUD", "perhaps"), ("DELAYS", "1,x")],
)
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^CHARONIA_{name} is wrong: "):
        load(Sample, {"CHARONIA_NAME": "n", f"CHARONIA_{name}": value})


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
        *[("SLOTS", "-3"), ("MAX_MESSAGE", "0"), ("SHUTDOWN_GRACE", "-1")],
        *[("DATABASE_URL", "foo"), ("AMQP_URL", "foo"), ("TRITON_URL", "http://x")],
    ],
)
def test_what_a_service_could_not_run_with_is_refused(name: str, value: str) -> None:
    good = {
        "DATABASE_URL": "postgresql://d",
        "AMQP_URL": "amqp://a",
        "PORT": "1",
        "TRITON_URL": "localhost:8001",
        "ENCRYPTION_KEYS": "k",
    }
    environ = {f"CHARONIA_{key}": text for key, text in good.items()}
    load(DispatcherSettings, environ)
    with pytest.raises(SettingsError, match=f"^CHARONIA_{name} is wrong: "):
        load(DispatcherSettings, environ | {f"CHARONIA_{name}": value})
