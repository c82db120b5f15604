"""What a key and its tenant may have at most, over all gateways, and what they are told."""

import asyncio
import re
import time

import httpx

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.conftest import open_client
from tests.acceptance.keys import make_key
from tests.acceptance.waiting import eventually

RATE = 5  # requests a second
TOLD = re.compile(rf'"key";r=([0-{RATE}]);t=([01])')


def read_left(answer: httpx.Response) -> int:
    """The requests that are left, as the headers say."""
    assert answer.headers["ratelimit-policy"] == f'"key";q={RATE};w=1'
    told = TOLD.fullmatch(answer.headers["ratelimit"])
    assert told is not None, answer.headers["ratelimit"]
    return int(told[1])


async def test_a_key_makes_no_more_requests_than_its_rate_limit_on_all_gateways_together(
    stack: Stack, gateways: list[str]
) -> None:
    key = await make_key(stack, "quick", "--rate-limit", str(RATE))
    async with open_client(stack, key, gateways[0]) as first, open_client(stack, key, gateways[1]) as second:
        began = time.monotonic()
        answers = await asyncio.gather(*(api.http.get("/v1/models") for _ in range(20) for api in (first, second)))
        took = time.monotonic() - began
        served = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(served) + len(refused) == len(answers)
        assert RATE <= len(served) <= RATE + RATE * took + 1
        assert refused
        assert max(map(read_left, served)) == RATE - 1
        for answer in refused:
            assert (read_left(answer), answer.headers["retry-after"]) == (0, "1")
            assert answer.json()["type"] == "urn:charonia:problem:rate_limited"
        for api in (first, second):

            async def served_again(api: Api = api) -> bool:
                return (await api.http.get("/v1/models")).status_code == 200

            await eventually(served_again, "the key may make requests again")


async def test_every_answer_to_a_limited_key_says_what_is_left_and_none_to_another(stack: Stack, api: Api) -> None:
    key = await make_key(stack, "told", "--rate-limit", str(RATE), "--scope", "read")
    calls = [("GET", "/v1/models", 200), ("GET", "/v1/jobs/none", 404), ("POST", "/v1/jobs", 403)]
    async with open_client(stack, key) as limited:
        for method, path, status in calls:
            answer = await limited.http.request(method, path, json=None)
            assert (answer.status_code, read_left(answer) < RATE) == (status, True)
    for method, path, _ in calls:
        answer = await api.http.request(method, path, json=None)
        assert not {"ratelimit", "ratelimit-policy"} & answer.headers.keys()
