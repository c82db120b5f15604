"""Each subscription gets the webhooks that it asked for, and no others."""

from contextlib import AsyncExitStack

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Subscription
from tests.support.api.model_inputs import fault
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded", "job.failed"]


async def test_each_receiver_gets_its_webhook_signed_with_its_own_secret(api: Api, receiver: Receiver) -> None:
    callback, first, second = (receiver.inbox() for _ in range(3))
    async with (
        api.subscribed(first.url, events=ENDS) as first_subscription,
        api.subscribed(second.url, events=["job.succeeded"]) as second_subscription,
    ):
        job = await api.submit("echo", ECHO, webhook={"url": callback.url})
        secrets = [await api.callback_secret(), first_subscription.secret, second_subscription.secret]
        deliveries = [(await inbox.wait())[0] for inbox in (callback, first, second)]
        events = [delivery.verify(secret or "") for delivery, secret in zip(deliveries, secrets, strict=True)]
        assert len(set(secrets)) == 3
        assert len({delivery.id for delivery in deliveries}) == 3
        assert {(event.type, event.data.id) for event in events} == {("job.succeeded", job.id)}
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"


async def test_subscription_gets_only_events_of_its_models(api: Api, receiver: Receiver) -> None:
    every, tokens_only = receiver.inbox(), receiver.inbox()
    async with (
        api.subscribed(every.url, events=ENDS),
        api.subscribed(tokens_only.url, events=ENDS, models=["tokens"]) as filtered,
    ):
        other = await api.run("echo", ECHO)
        await api.wait_for_webhooks(other.id)
        matching = await api.run("tokens", {"text": ["two words"]})
        (delivery,) = await tokens_only.wait()  # a webhook of the other job would have come before
        assert delivery.verify(filtered.secret or "").data.id == matching.id
        assert len(await every.wait(2)) == 2


async def test_subscription_gets_only_its_events(api: Api, receiver: Receiver) -> None:
    failures, starts = receiver.inbox(), receiver.inbox()
    async with (
        api.subscribed(failures.url, events=["job.failed"]) as failed,
        api.subscribed(starts.url, events=["job.started"]) as started,
    ):
        succeeded = await api.run("echo", ECHO)
        await starts.wait(1)
        failed_job = await api.run("faulty", fault("invalid"))
        (delivery,) = await failures.wait()
        assert delivery.verify(failed.secret or "").data.id == failed_job.id
        events = [delivery.verify(started.secret or "") for delivery in await starts.wait(2)]
        assert [(event.type, event.data.id) for event in events] == [
            ("job.started", succeeded.id),
            ("job.started", failed_job.id),
        ]


async def test_event_patterns_match_events(api: Api, receiver: Receiver) -> None:
    inboxes = {pattern: receiver.inbox() for pattern in ("job.*", "*.succeeded", "*", "*.*", "delivery.*")}
    async with AsyncExitStack() as stack:
        secrets = {
            pattern: (await stack.enter_async_context(api.subscribed(inbox.url, events=[pattern]))).secret or ""
            for pattern, inbox in inboxes.items()
        }
        job = await api.run("echo", ECHO)
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
        events = {
            pattern: {delivery.verify(secrets[pattern]).type for delivery in inbox.deliveries}
            for pattern, inbox in inboxes.items()
        }
    both = {"job.started", "job.succeeded"}
    assert events == {
        "job.*": both,
        "*": both,
        "*.*": both,
        "*.succeeded": {"job.succeeded"},
        "delivery.*": set(),
    }


async def test_deleted_subscription_gets_nothing(api: Api, receiver: Receiver) -> None:
    staying, leaving = receiver.inbox(), receiver.inbox()
    async with api.subscribed(staying.url, events=ENDS):
        async with api.subscribed(leaving.url, events=ENDS) as deleted:
            first = await api.run("echo", ECHO)
            await leaving.wait()
            assert (await api.wait_for_webhooks(first.id)).webhook_status == "succeeded"
        second = await api.run("echo", ECHO)
        await staying.wait(2)
        assert (await api.wait_for_webhooks(second.id)).webhook_status == "succeeded"
        assert len(leaving.deliveries) == 1
        assert (await api.http.get(f"/v1/webhooks/{deleted.id}")).status_code == 404


async def test_a_tenant_may_have_a_limited_number_of_subscriptions(stack: Stack, receiver: Receiver) -> None:
    key, url = await make_key(stack, "subscribes-often"), receiver.inbox().url
    async with (
        another_gateway(stack, CHARONIA_MAX_WEBHOOKS_PER_TENANT="2") as gateway,
        open_client(stack, key, gateway.url) as client,
        client.subscribed(url),
    ):
        async with client.subscribed(url):
            refused = await client.http.post("/v1/webhooks", json={"url": url})
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:charonia:problem:limit_reached")
            assert "has 2 webhook subscriptions" in refused.json()["detail"]
            assert "CHARONIA_MAX_WEBHOOKS_PER_TENANT" in refused.json()["detail"]
            assert "delete one" in refused.json()["detail"]
        async with client.subscribed(url):
            pass


async def test_an_ordered_subscription_gets_the_events_of_a_job_in_order(api: Api, receiver: Receiver) -> None:
    """Also if the first attempt at the first one fails."""
    inbox = receiver.inbox(500)
    async with api.subscribed(inbox.url, ordered=True) as subscription:
        assert subscription.ordered
        job = await api.run("echo", ECHO)
        await inbox.wait(3)
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
        events = [delivery.verify(subscription.secret or "") for delivery in inbox.deliveries]
    assert [(event.type, event.sequence) for event in events] == [
        ("job.started", 1001),
        ("job.started", 1001),
        ("job.succeeded", 1999),
    ]


async def test_a_subscription_to_an_unknown_model_warns(api: Api, receiver: Receiver) -> None:
    """The model may come later, so it is no error."""
    async with api.subscribed(receiver.inbox().url, models=["ocr", "ehco", "later"]) as subscription:
        near, far = subscription.warnings or []
        assert (near.pointer, near.detail.partition("; ")[2]) == ("/models/1", "did you mean 'echo'?")
        assert (far.pointer, "; known models: '" in far.detail, "'echo'" in far.detail) == ("/models/2", True, True)
        path = f"/v1/webhooks/{subscription.id}"
        changed = read(await api.http.patch(path, json={"models": ["work_smal"]}), 200, Subscription)
        assert ["did you mean 'work_small'?" in each.detail for each in changed.warnings or []] == [True]
        assert read(await api.http.patch(path, json={"models": ["ocr"]}), 200, Subscription).warnings is None
        refused = await api.http.patch(path, json={"models": ["ocr", "ocr*"]})
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/models/1")
        assert read(await api.http.get(path), 200, Subscription).warnings is None


async def test_a_callback_takes_the_patterns_of_subscriptions(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    job = await api.run("echo", ECHO, webhook={"url": inbox.url, "events": ["job.*"]})
    secret = await api.callback_secret()
    events = {delivery.verify(secret).type for delivery in await inbox.wait(2)}
    assert events == {"job.started", "job.succeeded"}
    assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"


async def test_only_keys_that_may_change_a_subscription_see_the_query_of_its_url(
    stack: Stack, api: Api, own_receiver: Receiver
) -> None:
    inbox = own_receiver.inbox()
    url = f"{inbox.url}?token=secret"
    made = (await api.http.post("/v1/keys", json={"name": "reader", "scopes": ["read"]})).json()
    async with (
        api.subscribed(url, events=["job.succeeded"]) as subscription,
        open_client(stack, made["key"]) as reader,
    ):
        await api.run("echo", ECHO)
        path = f"/v1/webhooks/{subscription.id}"

        async def is_delivered() -> bool:
            return bool((await api.http.get(f"{path}/deliveries")).json()["items"])

        await eventually(is_delivered, "there is a delivery")
        assert (await api.http.get(path)).json()["url"] == url
        shown = [(await reader.http.get(path)).json(), *(await reader.http.get("/v1/webhooks")).json()["items"]]
        assert {each["url"] for each in shown if each["id"] == subscription.id} == {inbox.url}
        for client in (api, reader):
            deliveries = (await client.http.get(f"{path}/deliveries")).json()["items"]
            assert {each["url"] for each in deliveries} == {inbox.url}
