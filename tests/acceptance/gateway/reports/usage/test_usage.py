"""A tenant reads what it used."""

from datetime import UTC, datetime
from typing import Any

import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import fault
from tests.support.stacks.key_command import make_key
from tests.support.waiting import eventually

WRONG_CURSOR = {
    "pointer": "cursor",
    "detail": "invalid cursor; pass the previous page's next_cursor, with the same filters",
}


async def read_usage(api: Api, **query: object) -> dict[str, Any]:
    response = await api.http.get("/v1/usage", params=query)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_usage_is_listed_by_day_and_model_and_only_to_its_tenant(stack: Stack) -> None:
    async with open_client(stack, await make_key(stack, "metered")) as api:
        for _ in range(2):
            await api.run("echo", {"x": [[1.0, 2.0]]})
        await api.run("faulty", fault("invalid"))

        async def is_counted() -> list[dict[str, Any]] | None:
            items: list[dict[str, Any]] = (await read_usage(api))["items"]
            return items if sum(sum(item["jobs"].values()) for item in items) == 3 else None

        faulty, echo = await eventually(is_counted, "all jobs are counted")
        assert (echo["model"], echo["jobs"]["succeeded"]) == ("echo", 2)
        assert (faulty["model"], faulty["jobs"]["failed"], faulty["bytes_out"]) == ("faulty", 1, 0)
        assert echo["inference_seconds"] > 0
        assert echo["bytes_in"] > 0
        assert echo["bytes_out"] > 0
        today = echo["day"]
        assert abs((datetime.fromisoformat(today).date() - datetime.now(UTC).date()).days) <= 1
        first = await read_usage(api, limit=1)
        second = await read_usage(api, limit=1, cursor=first["next_cursor"])
        assert [*first["items"], *second["items"]] == [faulty, echo]
        assert second["next_cursor"] is None
        for changed in ({"model": "echo"}, {"since": today}, {"until": today}):
            refused = await api.http.get("/v1/usage", params={"cursor": first["next_cursor"], **changed})
            assert (refused.status_code, refused.json()["errors"]) == (422, [WRONG_CURSOR])
        assert (await read_usage(api, model="echo", since=today, until="9999-12-31"))["items"] == [echo]
        assert (await read_usage(api, until=today))["items"] == []
        assert (await read_usage(api, until="2020-01-01"))["items"] == []
        assert (await read_usage(api, since="9999-12-31"))["items"] == []
    async with open_client(stack, await make_key(stack, "idle")) as other:
        assert (await read_usage(other))["items"] == []


@pytest.mark.parametrize(
    "query", [{"since": "yesterday"}, {"until": "2026-13-01"}, {"cursor": "nonsense"}, {"cursor": "AAAA"}, {"day": "x"}]
)
async def test_wrong_parameters_are_refused(api: Api, query: dict[str, str]) -> None:
    assert (await api.http.get("/v1/usage", params=query)).status_code == 422
