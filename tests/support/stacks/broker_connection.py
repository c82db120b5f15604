"""The connections of gateways to the broker. A gateway is ready without one."""

from functools import partial

import httpx

from deploy.local.services import Service

ANSWER_SECONDS = 5.0


def wait_for_broker(*gateways: Service) -> None:
    """Return when gateways publish their own wake-ups. Before that, a dispatcher finds their jobs seconds later."""
    for gateway in gateways:
        gateway.process.wait_ready(partial(has_broker, gateway.url), gateway.ready_within)


def has_broker(url: str) -> bool:
    try:
        answer = httpx.get(f"{url}/readyz", timeout=ANSWER_SECONDS)
    except httpx.TransportError:
        return False
    return answer.is_success and answer.json()["checks"]["broker"] == "ok"
