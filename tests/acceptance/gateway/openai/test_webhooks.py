"""Webhooks in OpenAI's words, verified and read by OpenAI's own clients."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai.types.webhooks import ResponseCompletedWebhookEvent

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.acceptance.gateway.openai.conftest import run_node
from tests.support.api.api_client import Api
from tests.support.api.tenants import make_tenant
from tests.support.openai_batches import chat, create, write
from tests.support.receivers.webhook_receiver import Inbox, Receiver
from tests.support.waiting import eventually

SLOW = "$slow" + " word" * 40


class Subscription:
    """A subscription in OpenAI's words, with its receiver."""

    def __init__(self, inbox: Inbox, webhook: dict[str, Any], client: openai.OpenAI) -> None:
        self.inbox = inbox
        self.id: str = webhook["id"]
        self.secret: str = webhook["secret"]
        self._client = client

    def read(self) -> list[tuple[str, str]]:
        """Return the type and the subject of each event so far. Fail if a signature is wrong."""
        received = [(each.request.body, each.request.headers) for each in self.inbox.deliveries]
        events: list[Any] = [self._client.webhooks.unwrap(*each, secret=self.secret) for each in received]
        return [(event.type, event.data.id) for event in events]

    async def wait_for(self, *expected: tuple[str, str]) -> None:
        """Return once exactly these events have come, in any order."""
        await self.inbox.wait(len(expected))
        assert sorted(set(self.read())) == sorted(expected)


@pytest.fixture
async def key(stack: Stack) -> str:
    """The key of a tenant of its own: its subscriptions get no events of jobs that other tests left."""
    return await make_tenant(stack, "openai-webhooks")


@pytest.fixture
async def api(stack: Stack, key: str) -> AsyncIterator[Api]:
    async with open_client(stack, key) as opened:
        yield opened


@pytest.fixture
async def client(base_url: str, key: str) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=30) as opened:
        yield opened


@pytest.fixture
async def subscription(api: Api, receiver: Receiver, base_url: str) -> AsyncIterator[Subscription]:
    inbox = receiver.inbox()
    made = await api.http.post("/v1/webhooks", json={"url": inbox.url, "format": "openai"})
    assert made.status_code == 201, made.text
    webhook = made.json()
    assert (webhook["format"], webhook["events"]) == ("openai", ["*"])
    with openai.OpenAI(base_url=base_url, api_key="none") as opened:
        yield Subscription(inbox, webhook, opened)
    await api.http.delete(f"/v1/webhooks/{webhook['id']}")


async def ask(client: Any, model: str, text: str, **more: Any) -> str:
    """Return the id of a response in the background."""
    response = await client.responses.create(model=model, input=text, background=True, **more)
    return str(response.id)


async def test_each_end_of_a_response_is_told(client: Any, subscription: Subscription) -> None:
    completed = await ask(client, "messages_model", "one two")
    cut = [
        await ask(client, model, "one two", max_output_tokens=1)
        for model in ("vllm_model", "tensorrt_llm_bls", "messages_model")
    ]
    failed = await ask(client, "vllm_model", "$fail one")
    canceled = await ask(client, "vllm_model", SLOW)
    await client.responses.cancel(canceled)
    await client.chat.completions.create(model="messages_model", messages=[{"role": "user", "content": "hi"}])
    await client.responses.create(model="messages_model", input="hi", store=False)  # nobody could get it
    await subscription.wait_for(
        ("response.completed", completed),
        *(("response.incomplete", each) for each in cut),
        ("response.failed", failed),
        ("response.cancelled", canceled),
    )
    for kind, response in subscription.read():
        assert (await client.responses.retrieve(response)).status == kind.partition(".")[2]


async def test_each_end_of_a_batch_is_told(client: Any, subscription: Subscription) -> None:
    completed = await create(client, write([chat("a", "hello"), chat("b", "x", model="no_model")]))
    failed = await create(client, b"no json\n")
    cancelled = await create(client, write([chat("slow", SLOW, "messages_model")]))
    await client.batches.cancel(cancelled.id)
    slow = [chat(str(number), "$slow" + " word" * 20, "messages_model") for number in range(100)]
    expired = await create(client, write(slow), completion_window="1s")
    await subscription.wait_for(
        ("batch.completed", completed.id),
        ("batch.failed", failed.id),
        ("batch.cancelled", cancelled.id),
        ("batch.expired", expired.id),
    )
    for kind, batch in subscription.read():
        assert (await client.batches.retrieve(batch)).status == kind.partition(".")[2]


async def test_the_event_is_openais_and_its_body_can_be_read_again(
    api: Api, client: Any, subscription: Subscription
) -> None:
    response = await ask(client, "messages_model", "one two")
    (delivery, *_) = await subscription.inbox.wait()
    event = client.webhooks.unwrap(delivery.request.body, delivery.request.headers, secret=subscription.secret)
    assert isinstance(event, ResponseCompletedWebhookEvent)
    assert (event.object, event.data.id) == ("event", response)
    assert event.id.startswith("evt_")
    answer = await client.responses.retrieve(response)
    assert event.created_at == answer.completed_at
    read = (await api.http.get(f"/v1/deliveries/{delivery.id}/body")).json()
    assert read["body"].encode() == delivery.request.body
    listed = await api.http.get(f"/v1/webhooks/{subscription.id}/deliveries", params={"event_type": "response.*"})
    assert [each["event_type"] for each in listed.json()["items"]] == ["response.completed"]
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(delivery.request.body + b" ", delivery.request.headers, secret=subscription.secret)


async def test_a_receiver_that_fails_gets_the_same_event_again(client: Any, subscription: Subscription) -> None:
    subscription.inbox.answers.append(503)
    response = await ask(client, "messages_model", "one two")
    first, second, *_ = await subscription.inbox.wait(2)
    assert (first.id, first.request.body) == (second.id, second.request.body)
    assert set(subscription.read()) == {("response.completed", response)}


async def test_both_secrets_sign_after_a_rotation(api: Api, client: Any, subscription: Subscription) -> None:
    rotated = await api.http.post(f"/v1/webhooks/{subscription.id}/rotate", json={"grace_period": 60})
    response = await ask(client, "messages_model", "one two")
    (delivery, *_) = await subscription.inbox.wait()
    for secret in (subscription.secret, rotated.json()["secret"]):
        event = client.webhooks.unwrap(delivery.request.body, delivery.request.headers, secret=secret)
        assert event.data.id == response


async def test_a_test_is_an_event_that_no_receiver_takes_for_a_response(api: Api, subscription: Subscription) -> None:
    tried = await api.http.post(f"/v1/webhooks/{subscription.id}/test")
    assert tried.json()["error"] is None
    assert subscription.read() == [("webhook.test", subscription.id)]


async def test_the_client_for_node_verifies_and_reads_it(
    client: Any, subscription: Subscription, base_url: str
) -> None:
    response = await ask(client, "messages_model", "one two")
    (delivery, *_) = await subscription.inbox.wait()
    headers = json.dumps(dict(delivery.request.headers))
    event = await run_node(base_url, subscription.secret, headers, stdin=delivery.request.body.decode())
    assert (event["type"], event["data"]["id"]) == ("response.completed", response)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"format": "openai", "signing": "ed25519"}, "/signing"),
        ({"format": "openai", "events": ["job.succeeded"]}, "/events/0"),
        ({"format": "open-ai"}, "/format"),
        ({"events": ["response.completed"]}, "/events/0"),
    ],
)
async def test_what_does_not_fit_the_format_is_refused(
    api: Api, receiver: Receiver, body: dict[str, object], pointer: str
) -> None:
    refused = await api.http.post("/v1/webhooks", json={"url": receiver.inbox().url, **body})
    assert refused.status_code == 422
    assert [each["pointer"] for each in refused.json()["errors"]] == [pointer]


async def test_the_events_may_be_changed_but_only_to_those_of_the_format(api: Api, subscription: Subscription) -> None:
    path = f"/v1/webhooks/{subscription.id}"
    changed = await api.http.patch(path, json={"events": ["response.failed"]})
    assert (changed.status_code, changed.json()["events"]) == (200, ["response.failed"])
    refused = await api.http.patch(path, json={"events": ["job.*"]})
    assert [each["pointer"] for each in refused.json()["errors"]] == ["/events/0"]


async def test_a_subscription_of_the_tenant_in_our_words_gets_the_job(
    api: Api, client: Any, receiver: Receiver, subscription: Subscription
) -> None:
    inbox = receiver.inbox()
    made = (await api.http.post("/v1/webhooks", json={"url": inbox.url, "events": ["job.succeeded"]})).json()
    try:
        response = await ask(client, "messages_model", "one two")

        async def has_both() -> bool:
            ours = [each.verify(made["secret"]).data.id for each in inbox.deliveries]
            return response.replace("resp_", "job_") in ours and bool(subscription.inbox.deliveries)

        await eventually(has_both, "both receivers have the end")
    finally:
        await api.http.delete(f"/v1/webhooks/{made['id']}")
