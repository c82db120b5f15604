"""What a key and its tenant may have at most, over all gateways, and what they are told."""

import asyncio
import re
import time

import httpx

from deploy.local.stack import Stack
from services.gateway.freshness import LONGEST_FRESH
from services.gateway.queues import UNKNOWN_SECONDS
from tests.acceptance.client import Api
from tests.acceptance.conftest import open_client
from tests.acceptance.keys import make_key, run_keys
from tests.acceptance.samples import work
from tests.acceptance.waiting import eventually

RATE = 5  # requests a second
ECHO = {"x": [[1.0]]}
MOST = 6  # jobs that may wait
SLOTS = 16  # of the model work: as many run, or are on their way to it
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


async def test_a_tenant_whose_queue_is_full_waits_until_it_is_shorter_and_nobody_else_does(
    stack: Stack, gateways: list[str], api: Api
) -> None:
    key = await make_key(stack, "bounded")
    limited = await run_keys(stack, "tenant", "bounded", "--max-queued", str(MOST))
    assert (limited.returncode, limited.stdout) == (0, f"bounded: max queued {MOST}\n")
    async with open_client(stack, key, gateways[0]) as first, open_client(stack, key, gateways[1]) as second:
        asked = [submit(gateway) for _ in range(30) for gateway in (first, second)]
        answers = await asyncio.gather(*asked)
        accepted = [answer.json()["id"] for answer in answers if answer.status_code == 202]
        refused = [answer for answer in answers if answer.status_code != 202]
        assert MOST <= len(accepted) <= SLOTS + 3 * MOST  # what two gateways let in before each sees the other's
        assert refused
        for answer in refused:
            assert (answer.status_code, answer.json()["type"]) == (429, "urn:charonia:problem:queue_full")
            assert 1 <= int(answer.headers["retry-after"]) <= UNKNOWN_SECONDS
            assert f"the queue of this tenant is full: {MOST} jobs may wait" in answer.json()["detail"]
        assert (await api.run("echo", ECHO)).status == "succeeded"
        ended = [await first.wait(job) for job in accepted]
        assert {job.status for job in ended} == {"succeeded"}
        for gateway in (first, second):

            async def let_in(gateway: Api = gateway) -> bool:
                return (await submit(gateway)).status_code == 202

            await eventually(let_in, "jobs are let in again", within=int(LONGEST_FRESH))


async def submit(api: Api) -> httpx.Response:
    return await api.http.post("/v1/jobs", json={"model": "work", "inputs": work(1000)})


async def test_a_limit_of_nothing_stops_a_tenant_and_the_default_lets_it_go_on(stack: Stack) -> None:
    async with open_client(stack, await make_key(stack, "stopped")) as api:
        for limit, shown, status in [("0", "0", 429), ("default", "as the gateways are set", 202)]:
            done = await run_keys(stack, "tenant", "stopped", "--max-queued", limit)
            assert (done.returncode, done.stdout) == (0, f"stopped: max queued {shown}\n")

            async def answered(status: int = status) -> bool:
                answer = await api.http.post("/v1/jobs", json={"model": "echo", "inputs": ECHO})
                return answer.status_code == status

            await eventually(answered, f"a submit is answered {status}")
    assert (await run_keys(stack, "tenant", "nobody")).stderr == "keys: there is no tenant 'nobody'\n"
