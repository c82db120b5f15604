"""What a process counts, as Prometheus would read it."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.waiting import eventually


async def read_metric(url: str, name: str, **labels: str) -> float:
    """The sum of the samples of that name that have these labels; 0 where there is none."""
    async with httpx.AsyncClient() as http:
        text = (await http.get(url)).raise_for_status().text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def wait_for_metric(url: str, name: str, value: float, **labels: str) -> None:
    """Returns once the metric is at least that."""

    async def look() -> bool:
        return await read_metric(url, name, **labels) >= value

    await eventually(look, f"{name}{labels} is at least {value:g}")
