"""When the jobs of many models arrive. Pure, and the same at each call."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from random import Random
from typing import NamedTuple

MODELS = 30
ZIPF_RATE, RATE = 15.0, 10.0  # jobs per second
BURST = 5  # jobs of one model in a row
ALTERNATING = 4  # models whose bursts alternate: one more than there is memory for
CHANGE_SECONDS = 15.0  # until the bursts are of other models


class Arrival(NamedTuple):
    """A job: the second in which it arrives, and its model."""

    at: float
    model: str


def name_model(number: int) -> str:
    return f"m{number:02}"


def arrive_uniformly(random: Random) -> Iterator[Arrival]:
    """Yield jobs of all models alike."""
    at = 0.0
    while True:
        at += random.expovariate(RATE)
        yield Arrival(at, name_model(random.randrange(MODELS)))


def arrive_by_zipf(random: Random) -> Iterator[Arrival]:
    """Yield jobs of which the n-th model has a share in proportion to 1/n."""
    weights = [1 / (number + 1) for number in range(MODELS)]
    at = 0.0
    while True:
        at += random.expovariate(ZIPF_RATE)
        yield Arrival(at, name_model(random.choices(range(MODELS), weights)[0]))


def arrive_in_bursts(random: Random) -> Iterator[Arrival]:
    """Yield bursts of ALTERNATING models in turn, and of others every CHANGE_SECONDS."""
    names = [name_model(number) for number in range(MODELS)]
    chosen, changes_at = list[str](), 0.0
    for number in count():
        at = number * BURST / RATE
        if at >= changes_at:
            chosen, changes_at = random.sample(names, ALTERNATING), changes_at + CHANGE_SECONDS
        yield from [Arrival(at, chosen[number % ALTERNATING])] * BURST


PATTERNS: Mapping[str, Callable[[Random], Iterator[Arrival]]] = {
    "zipf": arrive_by_zipf,
    "uniform": arrive_uniformly,
    "bursts": arrive_in_bursts,
}


def list_arrivals(pattern: str, seconds: float) -> list[Arrival]:
    """Return the jobs that arrive in the first `seconds` of a pattern."""
    found = list[Arrival]()
    for arrival in PATTERNS[pattern](Random(7)):  # noqa: S311 - a load's
        if arrival.at >= seconds:
            break
        found.append(arrival)
    return found
