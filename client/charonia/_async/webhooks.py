"""Subscriptions to events, and what was sent to them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from charonia._async.pages import list_pages
from charonia._async.transport import AsyncTransport
from charonia.admin_schemas import (
    DeliveryData,
    Recovery,
    SentBody,
    TestedDelivery,
    WebhookData,
    WebhookHealth,
    WebhookSecret,
)
from charonia.calls import Call, get, post
from charonia.paths import make_path


class AsyncWebhooks:
    """Subscriptions to events."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        description: str | None = None,
        headers: Mapping[str, str] | None = None,
        signing: Literal["hmac", "ed25519"] = "hmac",
        format: Literal["charonia", "openai"] | None = None,  # noqa: A002 -- the name in the API
        rate_limit: int | None = None,
        ordered: bool = False,
    ) -> WebhookData:
        """Create a subscription. Keep its `secret`: it is shown only now. `events` are `job.*` by default.

        With the format `openai`, it gets the ends of responses and batches of OpenAI's API, as OpenAI's clients read
        them, and `events` are all of these by default.
        """
        body = {
            "url": url,
            "events": events,
            "models": models,
            "description": description,
            "headers": headers,
            "signing": signing,
            "format": format,
            "rate_limit": rate_limit,
            "ordered": ordered,
        }
        given = {name: value for name, value in body.items() if value is not None}
        return await self._transport.call(post("/v1/webhooks", given), WebhookData)

    async def get(self, webhook_id: str) -> WebhookData:
        """Return a subscription. Raise NotFound."""
        return await self._transport.call(get(make_path("webhooks", webhook_id)), WebhookData)

    async def list(self) -> AsyncGenerator[WebhookData, None]:
        """Yield the subscriptions, oldest first."""
        async for webhook in list_pages(self._transport, "/v1/webhooks", WebhookData):
            yield webhook

    async def update(self, webhook_id: str, **changes: Any) -> WebhookData:
        """Change fields of a subscription: url, events, models, description, headers, rate_limit or ordered.

        None clears a field.
        """
        headers = {"Content-Type": "application/json"}
        call = Call("PATCH", make_path("webhooks", webhook_id), body=msgspec.json.encode(changes), headers=headers)
        return await self._transport.call(call, WebhookData)

    async def delete(self, webhook_id: str) -> None:
        """Delete a subscription. Its waiting deliveries are not sent."""
        await self._transport.send(Call("DELETE", make_path("webhooks", webhook_id)))

    async def rotate(self, webhook_id: str, *, grace_period: float = 86_400.0) -> WebhookData:
        """Replace the secret, and return the new one. The old one signs too for `grace_period` seconds."""
        call = post(make_path("webhooks", webhook_id, "/rotate"), {"grace_period": grace_period})
        return await self._transport.call(call, WebhookData)

    async def test(self, webhook_id: str) -> TestedDelivery:
        """Send `webhook.test` now, once, and return the attempt."""
        return await self._transport.call(post(make_path("webhooks", webhook_id, "/test")), TestedDelivery)

    async def health(self, webhook_id: str) -> WebhookHealth:
        """Return what is pending, the circuit, and how the latest deliveries went."""
        return await self._transport.call(get(make_path("webhooks", webhook_id, "/health")), WebhookHealth)

    async def disable(self, webhook_id: str) -> WebhookData:
        """Send nothing more to a subscription until it is enabled. Its pending deliveries are canceled."""
        return await self._transport.call(Call("POST", make_path("webhooks", webhook_id, "/disable")), WebhookData)

    async def enable(self, webhook_id: str) -> WebhookData:
        """Send events to a disabled subscription again."""
        return await self._transport.call(Call("POST", make_path("webhooks", webhook_id, "/enable")), WebhookData)

    async def recover(self, webhook_id: str, *, since: datetime, until: datetime | None = None) -> Recovery:
        """Send what failed in this time again, oldest first. `get_recovery` shows the progress."""
        body = {"since": since} | ({} if until is None else {"until": until})
        return await self._transport.call(post(make_path("webhooks", webhook_id, "/recoveries"), body), Recovery)

    async def get_recovery(self, webhook_id: str, recovery_id: str) -> Recovery:
        """Return the progress of a recovery."""
        path = make_path("webhooks", webhook_id, f"/recoveries/{quote(recovery_id, safe='')}")
        return await self._transport.call(get(path), Recovery)

    async def deliveries(self, webhook_id: str, *, status: str | None = None) -> AsyncGenerator[DeliveryData, None]:
        """Yield the deliveries of a subscription, newest first."""
        path = make_path("webhooks", webhook_id, "/deliveries")
        async for delivery in list_pages(self._transport, path, DeliveryData, status=status):
            yield delivery

    async def get_secret(self) -> WebhookSecret:
        """Return the tenant's secret, which signs the webhooks of single jobs."""
        return await self._transport.call(get("/v1/webhook-secret"), WebhookSecret)

    async def rotate_secret(self, *, grace_period: float = 86_400.0) -> WebhookSecret:
        """Replace the tenant's secret. The old one signs too for `grace_period` seconds."""
        return await self._transport.call(
            post("/v1/webhook-secret/rotate", {"grace_period": grace_period}), WebhookSecret
        )


class AsyncDeliveries:
    """Events on their way to receivers."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def get(self, delivery_id: str) -> DeliveryData:
        """Return a delivery with every attempt. Raise NotFound."""
        return await self._transport.call(get(make_path("deliveries", delivery_id)), DeliveryData)

    async def get_body(self, delivery_id: str) -> bytes:
        """Return what every attempt of a delivery sends, byte for byte."""
        call = get(make_path("deliveries", delivery_id, "/body"))
        return (await self._transport.call(call, SentBody)).body.encode()

    async def redeliver(self, delivery_id: str) -> DeliveryData:
        """Send a delivery again now, under the same id."""
        path = make_path("deliveries", delivery_id, "/redeliver")
        return await self._transport.call(post(path), DeliveryData)
