"""What Triton counts."""

from typing import NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

TIMEOUT = 30.0  # seconds


class Executed(NamedTuple):
    requests: int
    batches: int

    def since(self, before: "Executed") -> "Executed":
        return Executed(self.requests - before.requests, self.batches - before.batches)


def count_executed(metrics_url: str, model: str) -> Executed:
    """What was executed of a model, whatever became of it."""
    text = httpx.get(metrics_url, timeout=TIMEOUT, trust_env=False).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    counts = {sample.name: int(sample.value) for sample in samples if sample.labels.get("model") == model}
    # The parser gives every counter the ending that newer ones have.
    return Executed(counts["nv_inference_count_total"], counts["nv_inference_exec_count_total"])
