"""Each answer names the trace of its request, with tracing and without."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from charonia import AsyncCharonia, NotFound

from deploy.local.services import DEVELOPMENT_KEY, Service
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job, read
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

ECHO = {"model": "echo", "inputs": {"x": [[1.0]]}}
SENT = "0af7651916cd43dd8448eb211c80319c"
FORM = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


@pytest.fixture(params=["traced", "untraced"], scope="module")
async def service(stack: Stack, request: pytest.FixtureRequest) -> AsyncIterator[Service]:
    environment = {} if request.param == "traced" else {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}
    async with another_gateway(stack, **environment) as own:
        yield own


@pytest.fixture
async def gateway(stack: Stack, service: Service) -> AsyncIterator[Api]:
    async with open_client(stack, DEVELOPMENT_KEY, service.url) as client:
        yield client


def read_trace(response: httpx.Response) -> str:
    found = FORM.fullmatch(response.headers["traceresponse"])
    assert found is not None, response.headers["traceresponse"]
    return found.group(1)


async def test_each_answer_names_its_trace(gateway: Api) -> None:
    submitted = await gateway.http.post("/v1/jobs", json=ECHO)
    assert read_trace(submitted) == read(submitted, 202, Job).trace_id
    other = {"traceparent": f"00-{SENT}-b7ad6b7169203331-01"}
    continued = await gateway.http.post("/v1/jobs", json=ECHO, headers=other)
    assert read_trace(continued) == SENT == read(continued, 202, Job).trace_id
    answers = [
        await gateway.http.get("/v1/jobs"),
        await gateway.http.get("/v1/jobs/none"),
        await gateway.http.post("/v1/jobs", json={}),
        await gateway.http.get("/v1/jobs", headers={"Authorization": "Bearer none"}),
        await gateway.http.get("/nothing"),
        await gateway.http.head("/v1/models"),
        await gateway.http.get("/v2/models/none"),
        await gateway.http.get("/v1/jobs", headers={"traceparent": f"00-{'0' * 32}-b7ad6b7169203331-01"}),
    ]
    assert [each.status_code for each in answers] == [200, 404, 422, 401, 404, 200, 404, 200]
    traces = set(map(read_trace, answers))
    assert (len(traces), "0" * 32 in traces) == (len(answers), False)
    assert "traceresponse" not in (await gateway.http.get("/healthz")).headers


async def test_an_error_of_the_client_has_the_trace_id_of_the_log(service: Service) -> None:
    async with AsyncCharonia(service.url, DEVELOPMENT_KEY) as client:
        with pytest.raises(NotFound) as raised:
            await client.jobs.get("job_01m7ysshxnfbevq05b7h55g94z")

    async def find_line() -> str | None:
        lines = service.process.log.path.read_text().splitlines()
        return next((line for line in lines if f'"trace_id":"{raised.value.trace_id}"' in line), None)

    assert '"event":"request.refused"' in await eventually(find_line, "the refusal is logged")
