"""A client that was made before a fork."""

import os

import httpx
import pytest
from charonia import Charonia


def test_a_forked_process_does_not_use_the_connections_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def make_pool() -> httpx.Client:
        pool: httpx.Client

        def answer(_request: httpx.Request) -> httpx.Response:
            used.append(pool)
            return httpx.Response(200, json={"items": [], "next_cursor": None})

        pool = httpx.Client(transport=httpx.MockTransport(answer))
        return pool

    monkeypatch.setattr("charonia._sync.transport.make_pool", make_pool)
    parent = os.getpid()
    with Charonia("http://gateway", "k") as client:
        list(client.models.list())
        list(client.models.list())
        monkeypatch.setattr("charonia._sync.transport.os.getpid", lambda: parent + 1)
        list(client.models.list())
        list(client.models.list())
    assert used[0] is used[1] is not used[2] is used[3]
    used[0].close()
