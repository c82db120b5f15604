"""Measures how much memory Triton uses, from its metrics."""

import re
from collections.abc import Callable

import httpx

from common.telemetry.logs import Log
from common.telemetry.outage import Outage

SETTLE_SECONDS = 2.5  # until Triton's metrics have a change: it updates them every 2 s, unless it is set up otherwise
READ_SECONDS = 3.0
MAX_PAGE = 16 * 1024 * 1024  # bytes
GPU, CPU = "nv_gpu_memory_used_bytes", "nv_cpu_memory_used_bytes"
SAMPLE = re.compile(rf"^({GPU}|{CPU})(?:\{{[^\n]*\}})? ([0-9.eE+-]+)\s*$", re.MULTILINE)

log = Log("residency")


def read_used(page: str) -> int | None:
    """Return the bytes in use by a page of metrics: of all GPUs, or of the machine if it has none. None: unknown."""
    found: dict[str, float] = {}
    for name, value in SAMPLE.findall(page):
        found[name] = found.get(name, 0.0) + float(value)
    used = found.get(GPU, found.get(CPU))
    return None if used is None else round(used)


class Meter:
    """Reads Triton's memory, if there is a URL of its metrics."""

    def __init__(self, url: str, transport: Callable[[], httpx.AsyncBaseTransport | None] = lambda: None) -> None:
        self._url = url
        self._transport = transport
        self._outage = Outage()

    @property
    def is_on(self) -> bool:
        return bool(self._url)

    async def read(self) -> int | None:
        """Return the bytes in use. None: Triton does not say, or does not answer in time."""
        if not self._url:
            return None
        try:
            async with httpx.AsyncClient(timeout=READ_SECONDS, transport=self._transport()) as client:
                used = await self._fetch(client)
        except (httpx.HTTPError, ValueError) as error:
            self._warn(f"{type(error).__name__}: {error}")
            return None
        if used is None:
            self._warn(f"the page has neither {GPU} nor {CPU}: start Triton with --allow-metrics=true")
            return None
        self._outage.end()
        return used

    async def _fetch(self, client: httpx.AsyncClient) -> int | None:
        page = bytearray()
        async with client.stream("GET", self._url) as answer:
            answer.raise_for_status()
            async for part in answer.aiter_bytes():
                page += part
                if len(page) > MAX_PAGE:
                    raise ValueError(f"the page has over {MAX_PAGE} bytes")
        return read_used(page.decode(errors="replace"))

    def _warn(self, error: str) -> None:
        if self._outage.begin():
            log.warning("residency.not_measured", error=error)
