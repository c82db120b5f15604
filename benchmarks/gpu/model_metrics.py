"""What the models write on Triton's metrics port."""

import re
from typing import NamedTuple

METRIC = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
COMPUTE, MODEL = "benchmark_compute_seconds_total", "benchmark_model"
REQUESTS, BATCHES = "nv_inference_count", "nv_inference_exec_count"


class Work(NamedTuple):
    """What a model has done so far: seconds of all its instances in the network, requests, and batches of them."""

    seconds: float
    requests: float
    batches: float

    def __sub__(self, before: "Work") -> "Work":
        return Work(*(now - then for now, then in zip(self, before, strict=True)))


def read_work(text: str, model: str) -> Work:
    """Return what this model has done. Its instances are named after it."""
    found = {COMPUTE: 0.0, REQUESTS: 0.0, BATCHES: 0.0}
    for name, labels, value in _read(text):
        ours = labels.get("model") == model or labels.get("instance", "").startswith(f"{model}_")
        if name in found and ours:
            found[name] += value
    return Work(*found.values())


def describe_models(text: str) -> dict[str, dict[str, str]]:
    """Return the device, the parameters and the version of PyTorch of each instance."""
    described = (labels for name, labels, _ in _read(text) if name == MODEL)
    return {labels.pop("instance"): labels for labels in described}


def _read(text: str) -> list[tuple[str, dict[str, str], float]]:
    return [(each["name"], dict(LABEL.findall(each["labels"])), float(each["value"])) for each in METRIC.finditer(text)]
