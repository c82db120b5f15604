"""Did you mean: the known name closest to a misspelled one. Pure."""

from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from itertools import islice

LONGEST = 64  # characters of a name that is compared; bounds the time
MOST = 200  # known names that are compared
SHOWN = 30  # known names in a text
CLOSE = 0.7  # similarity, from 0 to 1


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant."""
    if len(name) > LONGEST:
        return None
    lowered = {each.lower(): each for each in islice(known, MOST) if len(each) <= LONGEST}
    found = get_close_matches(name.lower(), lowered, n=1, cutoff=CLOSE)
    return lowered[found[0]] if found else None


def suggest_path(path: str, templates: Iterable[str]) -> str | None:
    """Return the path that was probably meant. Templates are such as `/v1/jobs/{id}`, whose parameter is any text.

    It is the path below `/v1`, or has as many steps, of which each is near.
    """
    given = path.split("/")
    known = [template.split("/") for template in templates]
    if any(measure_path(["", "v1", *given[1:]], steps) == 1.0 for steps in known):
        return f"/v1{path}"
    best = max(known, key=lambda steps: measure_path(given, steps), default=[])
    if not measure_path(given, best):
        return None
    meant = "/".join(value if is_parameter(step) else step for step, value in zip(best, given, strict=True))
    return None if meant == path else meant


def measure_path(given: Sequence[str], steps: Sequence[str]) -> float:
    """Return how similar a path is to a template, from 0 to 1: as its step that differs most."""
    if len(given) != len(steps):
        return 0.0
    return min(
        float(bool(value)) if is_parameter(step) else measure_name(value, step)
        for value, step in zip(given, steps, strict=True)
    )


def measure_name(name: str, known: str) -> float:
    """Return how similar a name is to a known one: 1 for the same, 0 if it is not CLOSE."""
    if name == known:
        return 1.0
    if len(name) > LONGEST:
        return 0.0
    similarity = SequenceMatcher(None, name.lower(), known.lower()).ratio()
    return min(similarity, 0.99) if similarity >= CLOSE else 0.0


def is_parameter(step: str) -> bool:
    return step.startswith("{")


def list_names(names: Collection[str], quote: str = "") -> str:
    """Return the names in a sentence, at most SHOWN of them."""
    shown = ", ".join(f"{quote}{name}{quote}" for name in islice(names, SHOWN))
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def say_unknown(what: str, name: str, known: Collection[str]) -> str:
    """Return that a name is unknown, with the one probably meant, or else with the known names."""
    text = f"unknown {what} `{name}`"
    if meant := suggest(name, known):
        return f"{text}; did you mean `{meant}`?"
    return f"{text}; known {what}s: {list_names(known)}" if known else f"{text}; there are none here"
