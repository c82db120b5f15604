"""Options that several commands have."""

import contextlib
import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Annotated, Any, Optional, TypeVar, get_type_hints

import typer

from charonia.cli.arguments import InvalidArgument
from charonia.cli.completion import complete_models
from charonia.requests import Options
from charonia.schemas import Priority

# Older versions of typer know no other form of these types.
Text = Optional[str]  # noqa: UP045
Texts = Optional[list[str]]  # noqa: UP045
Time = Optional[str]  # noqa: UP045
Number = Optional[int]  # noqa: UP045
Choice = TypeVar("Choice", bound=str)
FIELDS = tuple(get_type_hints(Options))
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Model = Annotated[
    str,
    typer.Argument(
        help="The name of a model or a pipeline; `charonia models` lists them.", autocompletion=complete_models
    ),
]
ModelFilter = Annotated[Text, typer.Option("--model", help="Only of this model.", autocompletion=complete_models)]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job.")]
WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The id of a webhook.")]
Limit = Annotated[int, typer.Option(min=0, help="How many to list at most; 0 for all.")]
PriorityOption = Annotated[Optional[Priority], typer.Option(help="Jobs of a higher priority run first.")]  # noqa: UP045
WebhookOption = Annotated[Text, typer.Option(metavar="URL", help="Where to send the job's webhooks.")]
MetadataOption = Annotated[
    Texts, typer.Option(metavar="NAME=VALUE", help="Data of yours that the job and its webhooks return. Repeatable.")
]
SetOption = Annotated[
    Texts,
    typer.Option(
        "--set",
        metavar="FIELD=JSON",
        help=f"Another field of the submit: {', '.join(FIELDS)}. Repeatable; e.g. --set expires_in=600 "
        "--set output.location=s3://bucket/folder/.",
    ),
]
MAX_AGE = 31_536_000  # seconds; a year
MaxAgeOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(
        "--max-age",
        min=0,
        metavar="SECONDS",
        help="Take a result of the same job up to so many seconds old; with 0, only of one that is in flight.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Since = Annotated[Time, typer.Option(metavar="TIME", help="Only newer ones: 15m, 2h, 7d or a time.")]
KeyOption = Annotated[
    Text, typer.Option(metavar="TEXT", help="Submitted again with the same text, it is the same job for 24 hours.")
]


def check_key(key: str | None) -> str | None:
    """Return an Idempotency-Key. Raise InvalidArgument for one that no header can have."""
    if key is not None and not (key.isascii() and key.isprintable() and key.strip()):
        raise InvalidArgument(f"--idempotency-key {key!r}: write visible ASCII characters")
    return key


def read_pairs(option: str, pairs: Sequence[str] | None, allowed: Sequence[str] = ()) -> dict[str, Any]:
    """Return `NAME=VALUE` arguments; a value is JSON if it can be, else text. Raise InvalidArgument.

    An allowed NAME may be that of a field in an object, such as `output.location`.
    """
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise InvalidArgument(f"{option} {pair!r}: write NAME=VALUE")
        field, _, inner = name.partition(".") if allowed else (name, "", "")
        if allowed and field not in allowed:
            raise InvalidArgument(f"{option} {pair!r}: there is no field {field!r}; there are {', '.join(allowed)}")
        if not inner:
            found[field] = read_json(text)
        elif isinstance(known := found.setdefault(field, {}), dict):
            known[inner] = read_json(text)
        else:
            raise InvalidArgument(f"{option} {pair!r}: {field!r} is given as a whole already")
    return found


def read_json(text: str) -> Any:
    """Return the value of a JSON text, or the text if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def make_submit_fields(
    priority: Priority | None,
    webhook: str | None,
    metadata: Sequence[str] | None,
    fields: Sequence[str] | None,
    max_age: float | None = None,
) -> dict[str, Any]:
    """Return the arguments of `submit`, `run` and `map` besides the inputs. Raise InvalidArgument."""
    given = read_pairs("--set", fields, FIELDS)
    if max_age is not None:
        if "reuse" in given:
            raise InvalidArgument("--max-age and --set reuse say the same; give one of them")
        if not 0 <= max_age <= MAX_AGE:  # NaN is no number of seconds either
            raise InvalidArgument(f"--max-age takes 0 to {MAX_AGE:,} seconds")
        given["reuse"] = {"max_age": max_age}
    return {
        "priority": priority,
        "webhook": webhook,
        "metadata": read_pairs("--metadata", metadata) or None,
        "options": given or None,
    }


def read_time(option: str, text: str | None, *, ahead: bool = False) -> datetime | None:
    """Return a time: RFC 3339, a local time, or an age such as 90s, 15m, 2h or 7d. Raise InvalidArgument.

    With `ahead`, 7d is not an age, but in 7 days.
    """
    if text is None:
        return None
    now = datetime.now(timezone.utc)
    try:
        if text[-1:] in UNITS and text[:-1].isdecimal():
            span = timedelta(seconds=int(text[:-1]) * UNITS[text[-1]])
            return now + span if ahead else now - span
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone()
    except (ValueError, OverflowError, OSError):
        wanted = "a time from now" if ahead else "an age"
        raise InvalidArgument(
            f"{option} {text!r} is no time; write {wanted} such as 15m, 2h or 7d, or 2026-12-01T10:00"
        ) from None


def read_day(option: str, text: str | None) -> date | None:
    """Return a day in UTC: a date, or a time as `read_time` takes it. Raise InvalidArgument."""
    with contextlib.suppress(ValueError):
        return None if text is None else date.fromisoformat(text)
    time = read_time(option, text)
    return None if time is None else time.astimezone(timezone.utc).date()


def read_choices(option: str, given: Sequence[str] | None, allowed: Sequence[Choice]) -> list[Choice]:
    """Return a list of given values. Raise InvalidArgument for one that is not allowed."""
    for each in given or ():
        if each not in allowed:
            raise InvalidArgument(f"{option} {each!r}: write one of {', '.join(map(str, allowed))}")
    return [each for each in allowed if each in (given or ())]


def read_headers(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """Return `NAME:VALUE` arguments. Raise InvalidArgument."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        name, separator, value = pair.partition(":")
        if not separator or not name.strip():
            raise InvalidArgument(f"{option} {pair!r}: write NAME:VALUE")
        found[name.strip()] = value.strip()
    return found
