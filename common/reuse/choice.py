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

    A text that is no number of seconds counts as none.
    """
    try:
        seconds = float(settings.get(SETTING, ""))
    except ValueError:
        return None
    return min(seconds, MAX_AGE) if math.isfinite(seconds) and seconds >= 0 else None
