"""Settings from the environment. Each field of a frozen Struct is a variable `CHARONIA_<FIELD>`.

The string under a field describes it. The configuration reference in the docs is generated from these strings.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from common.errors import SettingsError
from common.server_urls import find_missing_file, is_server_url
from common.telemetry.logs import LogFormat

PREFIX = "CHARONIA_"
DatabaseUrl = Annotated[str, Meta(pattern=r"^postgres(ql)?://.")]
AmqpUrl = Annotated[str, Meta(pattern=r"^amqps?://.")]
_SERVER_URLS = {
    "database_url": "postgresql://user:password@host:5432/database",
    "amqp_url": "amqp://user:password@host:5672/vhost",
}
QueueType = Literal["classic", "quorum"]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Period = Annotated[float, Meta(gt=0, le=3_153_600_000)]  # seconds; with a hundred years, times are still dates
INLINE_SIZE = 256 * 1024  # bytes of a job's inputs, and of an output, that stay in the database
InlineSize = Annotated[int, Meta(ge=1024, le=1024 * 1024)]
# Before the paths in URLs, so without a slash at its end.
PublicUrl = Annotated[str, Meta(pattern=r"^(https?://[^\s?#]*[^\s?#/])?$")]
# A folder, or a bucket and a prefix in it. Without a query, which obstore would ignore.
StoreUrl = Annotated[str, Meta(pattern=r"^(file:///[^?#]+|(s3|gs|az)://[^/?#]+(/[^?#]*)?)$")]
EgressProxy = Annotated[str, Meta(pattern=r"^(https?://[^/\s]+/?)?$")]
# Where to look at traces: a URL with {trace_id}, or Jaeger's address.
TraceUrl = Annotated[str, Meta(pattern=r"^(https?://[^\s{}/]+(/[^\s{}]*(\{trace_id\}[^\s{}]*)?)?)?$")]
EXAMPLE_KEYS = frozenset(
    ("ch_dev", "ZGV2ZWxvcG1lbnQtb25seS1kZXZlbG9wbWVudC1vbmw=", "development-only-development-only")
)  # of deploy/compose/.env.example and the local stack
_OWN_KEY = "Make a random one, or set CHARONIA_DEVELOPMENT=1 on a machine that nobody else reaches."
S = TypeVar("S", bound=msgspec.Struct)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of every service."""

    database_url: DatabaseUrl
    """PostgreSQL: `postgresql://user:password@host:port/database`. Several servers have commas between them, as in
    `host:port,host:port`. The one that is read-write is used, unless the URL has `target_session_attrs`."""
    amqp_url: AmqpUrl
    """RabbitMQ: `amqp://user:password@host:port/vhost`. Several nodes of a cluster have commas between them, as in
    `host:port,host:port`."""
    queue_type: QueueType = "classic"
    """The type of the queues for wake-ups, the same for all services. `quorum` for a cluster of RabbitMQ nodes."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    """The port to listen on. The gateway serves the API there; every service serves its health and metrics there."""
    log_format: LogFormat = "auto"
    """The format of log lines. `auto` is text on a terminal and JSON elsewhere."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The lowest level to log."""
    development: bool = False
    """Whether the example keys of the repository are accepted. Everybody knows them, so never set it in production."""
    shutdown_grace: Seconds = 25.0
    """Seconds between SIGTERM and handing back unfinished work."""


def load(kind: type[S], environ: Mapping[str, str] = os.environ) -> S:
    """Return the settings. Lists are written with commas, booleans as true or false.

    Raise SettingsError, with the name of the variable, if one is missing or wrong, or has a key that everybody knows.
    """
    development = environ.get(f"{PREFIX}DEVELOPMENT", "").lower() in ("1", "true")
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        name = PREFIX + field.name.upper()
        text = environ.get(name)
        if text is None or text == "":
            if field.required:
                raise SettingsError(f"{name} is not set, and it has no default. Set it in the environment.")
            continue
        origin = getattr(field.type, "__origin__", field.type)
        raw: object = [part.strip() for part in text.split(",") if part.strip()] if origin in (list, tuple) else text
        try:
            values[field.name] = msgspec.convert(raw, field.type, strict=False)
        except msgspec.ValidationError as error:
            reason = "expected true or false" if field.type is bool else error
            raise SettingsError(f"{name} is wrong: {reason}") from error
        if not development and EXAMPLE_KEYS.intersection(part.strip() for part in text.split(",")):
            raise SettingsError(
                f"{name} is wrong: it has the example key of the repository, which everybody knows. {_OWN_KEY}"
            )
        if field.name in _SERVER_URLS and not is_server_url(text):
            raise SettingsError(
                f"{name} is wrong: expected a URL such as {_SERVER_URLS[field.name]}. Several hosts take commas, "
                "without spaces. Special characters in the password must be percent-encoded."
            )
        if field.name in _SERVER_URLS and (missing := find_missing_file(text)):
            raise SettingsError(f"{name} is wrong: no file is at {missing}. Mount it there, or correct the path.")
    return kind(**values)
