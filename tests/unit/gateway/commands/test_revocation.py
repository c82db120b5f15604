"""Announcing that a key was revoked."""

from services.gateway.commands.revocation import announce_revocation


async def test_a_missing_broker_is_reported() -> None:
    assert not await announce_revocation(None)
    assert not await announce_revocation("amqp://127.0.0.1:1/")
