"""How old a result a job takes: what its client wants, and what its model allows. Pure."""

import math
from collections.abc import Mapping

from msgspec import UNSET, UnsetType

from common.job_options import MAX_AGE, Reuse

SETTING = "charonia.reuse_seconds"  # a parameter of config.pbtxt


def choose_max_age(wanted: Reuse | UnsetType | None, settings: Mapping[str, str]) -> float | None:
    """Return the seconds, or None: the job shares nothing. `settings` are those of its model."""
    default = read_default(settings)
    if default == 0 or wanted is None:
        return None
    return default if wanted is UNSET else wanted.max_age


def read_default(settings: Mapping[str, str]) -> float | None:
    """Return the seconds of jobs whose client says nothing. 0: the model refuses reuse. None: it has no default.

    A text that cannot be read counts as 0: a result that is too old costs more than an inference.
    """
    return read_seconds(settings[SETTING]) or 0.0 if SETTING in settings else None


def read_seconds(text: str) -> float | None:
    """Return the seconds in a setting. None: it is no number from 0 to MAX_AGE."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= MAX_AGE else None
