"""Did you mean: the known name closest to a misspelled one. Pure."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
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
