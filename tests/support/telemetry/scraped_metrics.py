"""The metrics of a service, as Prometheus reads them."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.waiting import eventually

ANSWER_SECONDS = 30.0  # on a machine that stands still for a while


async def read_metric(url: str, name: str, **labels: str) -> float:
    """Return the sum of the samples with this name and these labels, or 0 if there is none."""
    async with httpx.AsyncClient(timeout=ANSWER_SECONDS) as http:
        text = (await http.get(url)).raise_for_status().text
    # All lines would take 20 ms to parse, for each poll of a test.
    lines = [line for line in text.split("\n") if line.startswith(name)]
    return sum(
        sample.value
        for family in text_string_to_metric_families("\n".join(lines))
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def wait_for_metric(url: str, name: str, value: float, **labels: str) -> None:
    """Return once the metric is at least `value`."""

    async def poll() -> bool:
        return await read_metric(url, name, **labels) >= value

    await eventually(poll, f"{name}{labels} is at least {value:g}")
