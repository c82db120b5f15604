"""The Prometheus metrics of this process."""

from prometheus_client import REGISTRY


def count(name: str, **labels: str) -> float | None:
    """Return the value of one sample, or None if there is none."""
    return REGISTRY.get_sample_value(name, labels)


class Counts:
    """Changes of the metrics since this object was made."""

    def __init__(self) -> None:
        self._before = read()

    def since(self, *names: str) -> dict[tuple[str, str], float]:
        """Return the increase of these metrics by name and value of the last label."""
        grown = {key: value - self._before.get(key, 0.0) for key, value in read().items() if key[0] in names}
        return {key: value for key, value in grown.items() if value}


def read() -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            key = sample.name, next(reversed(sample.labels.values()), "")
            found[key] = found.get(key, 0.0) + sample.value
    return found
