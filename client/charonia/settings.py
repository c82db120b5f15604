"""Where the URL and the key come from: arguments, the environment, or a profile of the command line."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from charonia.errors import ConfigurationError

URL, KEY, PROFILE = "CHARONIA_URL", "CHARONIA_KEY", "CHARONIA_PROFILE"


class Connection(NamedTuple):
    """The gateway's URL without a slash at its end, and the API key."""

    url: str
    key: str


class Profile(msgspec.Struct, frozen=True):
    """A gateway and a key under a name."""

    url: str
    key: str


class Profiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file of profiles; `default` is used if no other is named."""

    default: str = "default"
    profiles: dict[str, Profile] = {}


def find_config(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file of profiles, which `charonia login` writes."""
    base = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "charonia" / "config.toml"


def load_profiles(environ: Mapping[str, str] = os.environ) -> Profiles:
    """Return the profiles, none without a file. Raise ConfigurationError if it cannot be read."""
    path = find_config(environ)
    if not path.exists():
        return Profiles()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Profiles)
    except ImportError:  # Python 3.10 has no parser of TOML
        raise ConfigurationError(f"{path} cannot be read; run: pip install tomli, or set {URL} and {KEY}") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}; correct it, or set {URL} and {KEY}") from error


def find_connection(
    url: str | None = None,
    key: str | None = None,
    profile: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """Return the connection: arguments come first, then the environment, then the profile.

    A profile that is named by an argument comes before the environment. Raise ConfigurationError if one is missing.
    """
    if profile is None:
        url, key = url or environ.get(URL), key or environ.get(KEY)
    if not (url and key):
        found = _find_profile(profile or environ.get(PROFILE), environ)
        if found and url in (None, "", found.url, found.url.rstrip("/")):  # its key must not reach another gateway
            url, key = found.url, key or found.key
    if not url:
        raise ConfigurationError(f"no gateway is known; set {URL}, or pass url='https://…'")
    if not key:
        raise ConfigurationError(f"no API key is known; set {KEY}, or pass key='ch_…'")
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"the URL must begin with https:// or http://, not {url!r}")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError("the API key must be visible ASCII characters; check it for a line break")
    return Connection(url.rstrip("/"), key)


def _find_profile(name: str | None, environ: Mapping[str, str]) -> Profile | None:
    known = load_profiles(environ)
    found = known.profiles.get(name or known.default)
    if found is None and name is not None:
        names = ", ".join(sorted(known.profiles)) or "none"
        raise ConfigurationError(f"there is no profile {name!r} in {find_config(environ)}; known: {names}")
    return found


def describe_agent(version: str) -> str:
    """Return the User-Agent of this library."""
    return f"charonia-python/{version} Python/{sys.version_info.major}.{sys.version_info.minor}"
