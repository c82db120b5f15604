"""The connection comes from arguments, the environment or a profile."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from charonia import AsyncCharonia, Charonia
from charonia.errors import ConfigurationError
from charonia.settings import Connection, Profile, find_config, find_connection, load_profiles, save_profile

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


def test_profiles_are_stored_beside_the_others(environ: dict[str, str]) -> None:
    name, key = 'a "b" \\ ü\n', "ch_\"'\\"
    saved = save_profile(name, Profile("http://c", key), environ=environ)
    assert load_profiles(environ) == saved
    assert (list(saved.profiles), saved.default) == (["work", "home", name], "work")
    assert save_profile("home", Profile("http://d", "ch_d"), is_default=True, environ=environ).default == "home"
    assert find_connection(environ=environ) == ("http://d", "ch_d")
    assert find_connection(profile=name, environ=environ) == ("http://c", key)


def test_the_first_profile_is_the_default(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "new" / "folder")}
    assert save_profile("work", Profile("http://a", "ch_a"), environ=environ).default == "work"
    path = find_config(environ)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_others_can_read_is_closed_to_them(environ: dict[str, str]) -> None:
    path = find_config(environ)
    target = path.with_name("elsewhere.toml")
    path.rename(target)
    target.chmod(0o644)
    path.symlink_to(target)
    save_profile("new", Profile("http://a", "ch_a"), environ=environ)
    assert (path.is_symlink(), target.stat().st_mode & 0o777) == (True, 0o600)
    assert sorted(each.name for each in path.parent.iterdir()) == ["config.toml", "elsewhere.toml"]


def test_a_broken_file_is_never_replaced(environ: dict[str, str]) -> None:
    find_config(environ).write_text("profiles = 1")
    with pytest.raises(ConfigurationError, match=r"config\.toml cannot be read"):
        save_profile("new", Profile("http://a", "ch_a"), environ=environ)
    assert find_config(environ).read_text() == "profiles = 1"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "charonia").write_text("a file where the folder should be")
    with pytest.raises(ConfigurationError, match=r"config\.toml cannot be"):
        save_profile("new", Profile("http://a", "ch_a"), environ={"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize("url", ["http://", "https:///"])
def test_a_url_without_a_host_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="has no host"):
        find_connection(url, "ch_a", environ={})


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://a\n", "cannot be used: Invalid non-printable ASCII character"),
        ("http://a:b", "cannot be used: Invalid port"),
        ("http://[::1", "cannot be used: Invalid port"),
        ("http://\u2603.example", "cannot be used: Invalid IDNA hostname"),
        (f"http://{'a' * 64}", "cannot be used: .*label too long"),
        ("http://a/v1/", "must not end with /v1; leave that out"),
        ("http://user:secret@a", "must have no user"),
        ("http://a?x=1", "no query"),
        ("http://a#x", "no fragment"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        find_connection(url, "ch_a", environ={})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "ftp://proxy"),
        ("HTTP_PROXY", "http://[::1"),
        ("NO_PROXY", "[::1"),
        ("SSL_CERT_FILE", "/no/such/file"),
    ],
)
@pytest.mark.parametrize("kind", [Charonia, AsyncCharonia])
def test_a_wrong_proxy_or_certificate_in_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: type[Charonia | AsyncCharonia], name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"the environment names cannot be used: .*{name}"):
        kind("http://a", "ch_a")


def test_profiles_that_are_saved_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    names = [f"p{number}" for number in range(20)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: save_profile(name, Profile("http://a", "ch_a"), environ=environ), names))
    assert sorted(load_profiles(environ).profiles) == sorted(names)
