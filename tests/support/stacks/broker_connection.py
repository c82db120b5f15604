"""The connections of gateways to the broker. A gateway is ready without them."""

from functools import partial

import httpx

from deploy.local.services import Service

ANSWER_SECONDS = 5.0
CONSUMES_CHANGES = "charonia_queues_consumed 1.0"  # the only queue of a gateway


def wait_for_broker(*gateways: Service) -> None:
    """Return when gateways publish their own wake-ups, and hear of changes and of revoked keys.

    Before that, a dispatcher finds their jobs seconds later, and what is announced is lost to them.
    """
    for gateway in gateways:
        gateway.process.wait_ready(partial(has_broker, gateway.url), gateway.ready_within)


def has_broker(url: str) -> bool:
    try:
        answer = httpx.get(f"{url}/readyz", timeout=ANSWER_SECONDS)
        metrics = httpx.get(f"{url}/metrics", timeout=ANSWER_SECONDS)
    except httpx.TransportError:
        return False
    publishes = answer.is_success and answer.json()["checks"]["broker"] == "ok"
    return publishes and CONSUMES_CHANGES in metrics.text.splitlines()
