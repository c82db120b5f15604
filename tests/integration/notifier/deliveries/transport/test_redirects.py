"""Redirects are never followed."""

import socket

import pytest

from common.security.ssrf import AddressPolicy
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts.result import AttemptError
from tests.integration.notifier.receiver import ENCRYPTOR, SECONDS, claim, receive, write

METADATA = "169.254.169.254"
# The policy allows the target, so only the refusal to follow keeps the sender away.
OPEN = AddressPolicy.parse(["127.0.0.0/8", "169.254.0.0/16"], allow_http=True)


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses this process connected to, in order."""
    addresses: list[str] = []
    connect = socket.socket.connect

    def note(made: socket.socket, address: tuple[str, int]) -> None:
        addresses.append(address[0])
        connect(made, address)

    monkeypatch.setattr(socket.socket, "connect", note)
    return addresses


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_the_metadata_of_a_cloud_never_connects(connected: list[str], status: int) -> None:
    sender = Sender.open(ENCRYPTOR, OPEN, timeout=SECONDS, concurrency=10)
    head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: http://{METADATA}/latest/meta-data/\r\nContent-Length: 0\r\n\r\n"
    async with receive(write(head.encode())) as receiver:
        for _ in range(2):  # also over a persistent connection
            result = await sender.send(claim(f"http://127.0.0.1:{receiver.port}/"))
            assert (result.error, result.status_code) == (AttemptError.HTTP_STATUS, status)
        assert len(receiver.heads) == 2
    assert connected == ["127.0.0.1"]
    await sender.close()
