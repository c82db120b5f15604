"""Settings from the environment: a frozen Struct, each field the variable `CHARONIA_<FIELD>`."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Meta

from common.errors import SettingsError
from common.logs import Style

PREFIX = "CHARONIA_"
DatabaseUrl = Annotated[str, Meta(pattern=r"^postgres(ql)?://.")]
AmqpUrl = Annotated[str, Meta(pattern=r"^amqps?://.")]
SERVERS = ("database_url", "amqp_url")
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
# Where traces are looked at: with the place of the id in it, or Jaeger's address without.
TraceUrl = Annotated[str, Meta(pattern=r"^(https?://[^\s{}/]+(/[^\s{}]*(\{trace_id\}[^\s{}]*)?)?)?$")]
S = TypeVar("S", bound=msgspec.Struct)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What every service reads."""

    database_url: DatabaseUrl
    amqp_url: AmqpUrl
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535)]
    log_format: Style = "auto"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    shutdown_grace: Seconds = 25.0  # seconds from SIGTERM to giving back what still runs


def load(kind: type[S], environ: Mapping[str, str] = os.environ) -> S:
    """The settings in an environment.

    Lists are written with commas, booleans as true or false. Raises SettingsError naming the variable.
    """
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        name = PREFIX + field.name.upper()
        text = environ.get(name)
        if text is None or text == "":
            if field.required:
                raise SettingsError(f"{name} is not set")
            continue
        origin = getattr(field.type, "__origin__", field.type)
        raw: object = [part.strip() for part in text.split(",") if part.strip()] if origin in (list, tuple) else text
        try:
            values[field.name] = msgspec.convert(raw, field.type, strict=False)
        except msgspec.ValidationError as error:
            raise SettingsError(f"{name} is wrong: {error}") from error
        if field.name in SERVERS and not is_server(text):
            raise SettingsError(
                f"{name} is wrong: it is no URL; special characters in its password are percent-encoded"
            )
    return kind(**values)


def is_server(url: str) -> bool:
    """Whether clients can read such a URL; a password with / # ? or @ in it, as it is, makes another one of it."""
    try:
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        for host in hosts.split(","):  # asyncpg takes several
            _ = urlsplit(f"//{host}").port  # raises ValueError where it is none
        if url.startswith("postgres") and (
            "@" in login or (parts.query and not parse_qs(parts.query, strict_parsing=True))
        ):
            return False
    except ValueError:
        return False
    return "@" in parts.netloc or "@" not in url
