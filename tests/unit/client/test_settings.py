"""The connection comes from arguments, the environment or a profile."""

from pathlib import Path

import pytest
from charonia.errors import ConfigurationError
from charonia.settings import Connection, find_config, find_connection

FILE = """
default = "work"

[profiles.work]
url = "https://charonia.example.com/"
key = "ch_work"

[profiles.home]
url = "http://localhost:8080"
key = "ch_home"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    find_config(environ).parent.mkdir()
    find_config(environ).write_text(FILE)
    return environ


def test_the_default_profile_is_used(environ: dict[str, str]) -> None:
    assert find_connection(environ=environ) == Connection("https://charonia.example.com", "ch_work")
    assert find_connection(profile="home", environ=environ | {"CHARONIA_KEY": "k"}).key == "ch_home"
    assert find_connection(environ=environ | {"CHARONIA_PROFILE": "home"}).key == "ch_home"


def test_arguments_come_before_the_environment(environ: dict[str, str]) -> None:
    environ |= {"CHARONIA_URL": "https://a", "CHARONIA_KEY": "ch_a"}
    assert find_connection(environ=environ) == ("https://a", "ch_a")
    assert find_connection("https://b", "ch_b", environ=environ) == ("https://b", "ch_b")
    assert find_connection(key="ch_b", environ=environ) == ("https://a", "ch_b")


def test_the_key_of_a_profile_never_goes_to_another_gateway(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="no API key is known"):
        find_connection("https://other.example.com", environ=environ)
    assert find_connection("https://charonia.example.com", environ=environ).key == "ch_work"


@pytest.mark.parametrize(
    ("url", "key", "text"),
    [
        (None, "ch_a", "no gateway is known; set CHARONIA_URL"),
        ("http://a", None, "no API key is known; set CHARONIA_KEY"),
        ("localhost:8080", "ch_a", "must begin with https:// or http://"),
        ("http://a", "ch_a\n", "check it for a line break"),
    ],
)
def test_what_is_missing_or_wrong_is_named(url: str | None, key: str | None, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=text):
        find_connection(url, key, environ={"XDG_CONFIG_HOME": str(tmp_path)})


def test_an_unknown_profile_says_which_there_are(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"no profile 'x' in .*config\.toml; known: home, work"):
        find_connection(profile="x", environ=environ)


def test_a_broken_file_is_named(environ: dict[str, str]) -> None:
    find_config(environ).write_text("profiles = 1")
    with pytest.raises(ConfigurationError, match=r"config\.toml cannot be read"):
        find_connection(environ=environ)
