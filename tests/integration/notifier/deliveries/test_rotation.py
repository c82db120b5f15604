"""A rotation without a grace period, beside claims of new deliveries. No claim waits for it, and it waits for none."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from cryptography.fernet import Fernet

from common import ids
from common.postgres.database import Database
from common.security.encryption import Encryptor
from services.gateway.auth.store import Key
from services.gateway.webhooks.secret_rotation import SecretRotation
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.new_deliveries.store import NewDeliveryStore
from tests.integration.deliveries import CALLBACK, add_event, subscribe
from tests.integration.notifier.steps import FAILED, LEASE, Steps
from tests.integration.waiting import DEADLINE

OLD = b"sealed secret"  # as tests/integration store it
OLD_OF_TENANT = b"sealed"


@pytest.fixture
def encryptor() -> Encryptor:
    return Encryptor([Fernet.generate_key().decode()])


@pytest.fixture
def steps(database: Database) -> Steps:
    return Steps(database)


@pytest.mark.parametrize("receiver", ["subscription", "callback"])
async def test_an_attempt_under_way_keeps_its_signature_and_the_next_has_the_new_one(
    database: Database, tenant: UUID, steps: Steps, encryptor: Encryptor, receiver: str
) -> None:
    rotation, callback = SecretRotation(database, encryptor), CALLBACK if receiver == "callback" else {}
    key = Key(ids.new(), tenant)
    webhook = None if callback else (await subscribe(database, tenant)).id
    event = await add_event(database, tenant, **callback)
    await database.fetch("UPDATE endpoints SET next_at = now() + interval '1 second'")  # so a claim does not write it
    async with database.transaction() as connection:
        store = NewDeliveryStore(connection)
        (early,) = (await store.claim({event: ""}, 10, LEASE, 10)).claims
        async with asyncio.timeout(DEADLINE):
            if webhook is None:
                rotated = await rotation.rotate_tenant(key, 0)
            else:
                _, rotated = await rotation.rotate_webhook(key, webhook, 0)
    assert early.secrets == [OLD_OF_TENANT if callback else OLD]

    def read(claims: Sequence[ClaimedDelivery]) -> list[list[str]]:
        return [[encryptor.decrypt(secret).decode() for secret in claim.secrets] for claim in claims]

    assert read(await steps.take(await add_event(database, tenant, **callback))) == [[rotated.secret]]
    assert await steps.record([early], FAILED) == [True]  # a receiver that knows only the new secret rejects it
    await database.fetch("UPDATE deliveries SET next_at = now() WHERE id = $1", early.id)
    await database.fetch("UPDATE endpoints SET next_at = now()")
    again = await steps.claim()
    assert ([claim.id for claim in again], read(again)) == ([early.id], [[rotated.secret]])
