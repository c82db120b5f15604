"""Where the URL and the key come from: arguments, the environment, or a profile of the command line."""

import contextlib
import errno
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec

from charonia.errors import ConfigurationError

if sys.platform != "win32":
    import fcntl

LOCK_SECONDS, LOCK_PAUSE = 10.0, 0.02  # how long to wait for another command, and between two tries
EXAMPLE_URL = "https://charonia.example.com"
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
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except ImportError:  # Python 3.10 has no parser of TOML
        raise ConfigurationError(f"{path} cannot be read; run: pip install tomli, or set {URL} and {KEY}") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}; correct it, or set {URL} and {KEY}") from error


def save_profile(
    name: str, profile: Profile, *, is_default: bool = False, environ: Mapping[str, str] = os.environ
) -> Profiles:
    """Write a profile into the file, which only this user can read, and return all. The first one is the default.

    Raise ConfigurationError if the file cannot be read or written.
    """
    path = find_config(environ)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        with lock_folder(path.parent):
            known = load_profiles(environ)
            default = name if is_default or known.default not in known.profiles else known.default
            changed = Profiles(default, {**known.profiles, name: profile})
            replace_file(path.resolve(), format_profiles(changed).encode())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}; set {URL} and {KEY} instead") from error
    return changed


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let no other process of this kind change the folder meanwhile. Raise TimeoutError if one does for too long."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while not try_lock(descriptor):
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "another command holds the folder", str(folder))
            time.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock a file until it is closed. Return False if another process has locked it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def format_profiles(known: Profiles) -> str:
    """Return the profiles as TOML."""
    lines = ["# Written by `charonia login`.", f"default = {quote_toml(known.default)}"]
    for name, profile in known.profiles.items():
        lines += ["", f"[profiles.{quote_toml(name)}]", f"url = {quote_toml(profile.url)}"]
        lines += [f"key = {quote_toml(profile.key)}"]
    return "\n".join(lines) + "\n"


def quote_toml(text: str) -> str:
    """Return a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file at once, by one that only this user can read."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")  # of mode 600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
        raise ConfigurationError(f"no gateway is known; set {URL}, run `charonia login`, or pass url='https://…'")
    if not key:
        raise ConfigurationError(f"no API key is known; set {KEY}, run `charonia login`, or pass key='ch_…'")
    check_url(url)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError("the API key must be visible ASCII characters; check it for a line break")
    return Connection(url.rstrip("/"), key)


def check_url(url: str) -> None:
    """Raise ConfigurationError if the URL is not that of a gateway. The message has no password."""
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"the URL must begin with https:// or http://, not {url!r}")
    if not url.partition("://")[2].strip("/"):
        raise ConfigurationError(f"the URL {url!r} has no host; give one such as {EXAMPLE_URL}")
    try:
        parsed = httpx.URL(url)
        parsed.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ConfigurationError(f"the URL cannot be used: {error}; give one such as {EXAMPLE_URL}") from None
    if parsed.path.rstrip("/").endswith("/v1"):
        raise ConfigurationError(f"the URL must not end with /v1; leave that out: give one such as {EXAMPLE_URL}")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ConfigurationError(f"the URL must have no user, no query and no fragment; give one such as {EXAMPLE_URL}")


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
