"""Settings from the environment: a frozen Struct, each field the variable `CHARONIA_<FIELD>`."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from common.errors import SettingsError
from common.logs import Style

PREFIX = "CHARONIA_"
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
# Where traces are looked at: with the place of the id in it, or Jaeger's address without.
TraceUrl = Annotated[str, Meta(pattern=r"^(https?://[^\s{}/]+(/[^\s{}]*(\{trace_id\}[^\s{}]*)?)?)?$")]
S = TypeVar("S", bound=msgspec.Struct)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What every service reads."""

    database_url: Annotated[str, Meta(pattern=r"^postgres(ql)?://.")]
    amqp_url: Annotated[str, Meta(pattern=r"^amqps?://.")]
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
    return kind(**values)
