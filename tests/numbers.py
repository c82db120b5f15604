"""What this process counts."""

from prometheus_client import REGISTRY


def count(name: str, **labels: str) -> float | None:
    """The value of one sample; None where there is no such sample."""
    return REGISTRY.get_sample_value(name, labels)


class Counts:
    """How much is counted from now on."""

    def __init__(self) -> None:
        self.before = read()

    def since(self, *names: str) -> dict[tuple[str, str], float]:
        """What has grown, by name and the last label's value."""
        grown = {key: value - self.before.get(key, 0.0) for key, value in read().items() if key[0] in names}
        return {key: value for key, value in grown.items() if value}


def read() -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            key = sample.name, next(reversed(sample.labels.values()), "")
            found[key] = found.get(key, 0.0) + sample.value
    return found
