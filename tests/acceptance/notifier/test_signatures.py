"""The standard's own library, or a public key, verifies the signatures of any bytes."""

import msgspec

from tests.support.api.api_client import Api
from tests.support.receivers.webhook_receiver import Receiver

WORDS = ["größer", "海の法螺貝", "🐚 \u2028 \ufeff", 'quo"te\\ \t']
METADATA = {"naïve": "Ångström ½", "数": [1.0, 1e-7, None], "🐚": {"": "\u0000"}}


async def test_text_in_any_script_is_signed_for_every_receiver(api: Api, receiver: Receiver) -> None:
    callback, hmac, ed25519 = (receiver.inbox() for _ in range(3))
    async with (
        api.subscribed(hmac.url, events=["job.succeeded"]) as one,
        api.subscribed(ed25519.url, events=["job.succeeded"], signing="ed25519") as two,
    ):
        options = {"webhook": {"url": callback.url}, "metadata": METADATA}
        job = await api.submit("tokens", {"text": [" ".join(WORDS[:2])]}, **options)
        secrets = [await api.callback_secret(), one.secret or "", two.public_key or ""]
        deliveries = [(await inbox.wait())[0] for inbox in (callback, hmac, ed25519)]
    bodies = {delivery.request.body for delivery in deliveries}
    assert len(bodies) == 1
    data = msgspec.json.decode(bodies.pop())["data"]
    assert (data["id"], data["metadata"]) == (job.id, METADATA)
    found = [[delivery.is_signed_by(secret) for secret in secrets] for delivery in deliveries]
    assert found == [[True, False, False], [False, True, False], [False, False, True]]
