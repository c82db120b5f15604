"""The programs of the JavaScript guide pass the type checker and work, with Node and in a browser of another origin."""

import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from playwright.async_api import Error, Page, expect

from deploy.local.npm_packages import MANIFESTS
from deploy.local.processes.ports import free_ports
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.browser import open_browser
from tests.support.guides import read_blocks
from tests.support.javascript.programs import GUIDE, SERVE, Programs, compile_programs
from tests.support.receivers.raw_server import RawServer
from tests.support.stacks.key_command import make_key
from tests.support.stacks.own_gateway import another_gateway
from tests.support.waiting import eventually

RECEIVERS = {"express": ["node", "dist/receive-express.js"], "fetch": ["node", str(SERVE), "dist/receive-fetch.js"]}
ECHO = {"model": "echo", "inputs": {"x": [[5]]}}
LARGE = {"model": "echo", "inputs": {"x": [[1] * 40_000]}}  # a webhook of 200 kB
MAX_BODY = 2048
WAIT_MS = 45_000
EVENT = 'id: 1.{}\nevent: job.output\ndata: {{"type":"job.output","data":{{"outputs":[{{"data":["{}"]}}]}}}}\n\n'
FIRST, SECOND = EVENT.format(1, "hello"), EVENT.format(2, " world")
END = 'id: 1.9\nevent: job.succeeded\ndata: {"type":"job.succeeded","data":{}}\n\n'
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n"
BUSY = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\n{}"
FETCH = """async ([url, key, body, headers]) => {
  const sent = { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers };
  const answer = await fetch(url, { method: body ? "POST" : "GET", headers: sent, body });
  return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.text() };
}"""


@pytest.fixture(scope="module")
def programs(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """The programs of the guide; they are correct TypeScript."""
    return compile_programs(stack, tmp_path_factory.mktemp("javascript"))


def test_the_packages_of_the_guide_are_those_of_the_tests() -> None:
    manifest = json.loads((MANIFESTS / "package.json").read_text())
    named = re.findall(
        r"\s(@?[a-z][\w/-]+)(?:@(\d+))", "".join(re.findall("npm install .*", read_blocks(GUIDE, "sh")[0]))
    )
    wanted = manifest["dependencies"] | manifest["devDependencies"]
    del wanted["openai"]  # of the tests of OpenAI's API
    assert dict(named) == {name: version.lstrip("^").partition(".")[0] for name, version in wanted.items()}


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("run", "y [ 1, 3 ] [ 2, 4, 6 ]\n"),
        ("stream", "hello brave world"),
        ("pipeline", "counts [ 3, 3 ]\ntotal [ 4 ]\n2 jobs, one for each line\n"),
    ],
)
def test_a_program_prints_what_the_guide_says(programs: Programs, name: str, printed: str) -> None:
    assert programs.run(name) == printed


def test_a_refused_job_is_an_error_with_the_detail_of_the_answer(programs: Programs) -> None:
    done = programs.call("node", "dist/run.js", CHARONIA_KEY="ch_wrong")
    assert done.returncode == 1
    assert "Error: this API key is unknown or was revoked" in done.stderr


def test_a_submit_is_repeated_and_a_stream_goes_on_after_a_lost_connection(programs: Programs) -> None:
    answers = [
        "",  # the connection is lost before the answer
        BUSY,
        HEAD.format(10_000) + FIRST,  # the connection is lost in the stream
        HEAD.format(len(FIRST + SECOND)) + FIRST + SECOND,  # the gateway ends the stream early
        HEAD.format(len(FIRST + SECOND + END)) + FIRST + SECOND + END,
    ]

    def answer(_path: str, connection: socket.socket) -> None:
        text = answers.pop(0)
        connection.sendall(text.encode())
        if text in ("", HEAD.format(10_000) + FIRST):
            raise ConnectionError

    with RawServer(answer) as gateway:
        done = programs.call("node", "dist/stream.js", CHARONIA_URL=gateway.url)
    assert (done.stdout, done.stderr, answers) == ("hello world", "", [])
    keys = re.findall(rb"idempotency-key: (\S+)", b"".join(gateway.received), re.IGNORECASE)
    assert (len(keys), len(set(keys))) == (5, 1)


@pytest.mark.parametrize("kind", RECEIVERS)
async def test_a_receiver_takes_genuine_webhooks_of_any_size_and_no_others(
    programs: Programs, api: Api, kind: str
) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/hook"
    secret = (await api.http.get("/v1/webhook-secret")).json()["secret"]
    with programs.serve(RECEIVERS[kind], port, CHARONIA_WEBHOOK_SECRET=secret) as lines:
        jobs = [await api.post({**job, "webhook": {"url": url}}) for job in (ECHO, LARGE)]
        await find_lines(lines, *(f"job.succeeded {job.id}" for job in jobs))
        async with httpx.AsyncClient() as client:
            forged = {"content-type": "application/json", "webhook-id": "dlv_1", "webhook-timestamp": "1"}
            answers = [
                await client.post(url, content=b"{}", headers=headers)
                for headers in ({}, forged, forged | {"webhook-signature": "v1,AAAA"})
            ]
    assert [answer.status_code for answer in answers] == [401] * 3
    assert len(lines) == len(jobs)


async def find_lines(lines: Sequence[str], *endings: str) -> None:
    """Wait until a line ends with each of these texts."""

    async def poll() -> bool:
        return all(any(line.endswith(ending) for line in lines) for ending in endings)

    await eventually(poll, f"lines that end with {endings}")


@dataclass(frozen=True)
class Site:
    """A browser at the application of the guide."""

    page: Page
    origin: str

    async def fetch(self, url: str, key: str, body: object = None, **headers: str) -> dict[str, Any]:
        """Let a script of the page call a gateway."""
        text = None if body is None else json.dumps(body)
        found: dict[str, Any] = await self.page.evaluate(FETCH, [url, key, text, headers])
        return found


@pytest.fixture(scope="module")
async def site(programs: Programs) -> AsyncIterator[Site]:
    """The application, and a browser on a page of it that has no script."""
    programs.publish("")
    (port,) = free_ports(1)
    origin = f"http://127.0.0.1:{port}"
    with programs.serve(["node", "dist/app.js"], port):
        async with open_browser() as browser:
            page = await browser.new_page()
            await page.goto(f"{origin}/blank.html")
            yield Site(page, origin)


@pytest.fixture(scope="module")
async def allowing(stack: Stack, site: Site) -> AsyncIterator[str]:
    """The URL of a gateway that allows the application's origin."""
    origins = f"https://app.example.com,{site.origin}"
    async with another_gateway(stack, CHARONIA_CORS_ORIGINS=origins, CHARONIA_MAX_BODY_BYTES=str(MAX_BODY)) as gateway:
        yield gateway.url


async def test_without_the_setting_a_browser_refuses(stack: Stack, site: Site) -> None:
    async with site.page.expect_console_message() as said:
        with pytest.raises(Error, match="Failed to fetch"):
            await site.fetch(f"{stack.url}/v1/models", DEVELOPMENT_KEY)
    assert f"from origin '{site.origin}' has been blocked by CORS policy" in (await said.value).text


async def test_with_the_setting_a_page_submits_waits_and_reads_all_headers(
    stack: Stack, site: Site, allowing: str
) -> None:
    key = await make_key(stack, "pages", "--rate-limit", "50")
    ended = await site.fetch(f"{allowing}/v1/jobs", key, ECHO, Prefer="wait=30", **{"Idempotency-Key": "one"})
    assert (ended["status"], json.loads(ended["body"])["status"]) == (200, "succeeded")
    assert {"location", "preference-applied", "ratelimit", "ratelimit-policy", "traceresponse"} <= {*ended["headers"]}
    job = allowing + ended["headers"]["location"]
    again = await site.fetch(f"{job}?wait=30", key)
    assert json.loads(again["body"])["outputs"][0]["data"] == [10]
    rest = await site.fetch(f"{job}/events", key, Accept="text/event-stream", **{"Last-Event-ID": "1.0"})
    assert "event: job.succeeded" in rest["body"]


async def test_a_page_reads_why_it_is_refused(site: Site, allowing: str) -> None:
    unknown = await site.fetch(f"{allowing}/v1/jobs", "ch_wrong", ECHO)
    assert (unknown["status"], unknown["headers"]["www-authenticate"]) == (401, "Bearer")
    assert "this API key is unknown" in unknown["body"]
    large = await site.fetch(f"{allowing}/v1/jobs", DEVELOPMENT_KEY, {**ECHO, "metadata": {"text": "x" * MAX_BODY}})
    assert (large["status"], "body_too_large" in large["body"]) == (413, True)


async def test_the_page_of_the_guide_streams_with_a_key_that_can_do_nothing_else(
    programs: Programs, site: Site, allowing: str
) -> None:
    programs.publish(allowing)
    async with site.page.expect_response("**/charonia-key") as made:
        await site.page.goto(site.origin)
    await expect(site.page.locator("body")).to_contain_text("hello brave world", timeout=WAIT_MS)
    key = (await (await made.value).json())["key"]
    for body in (None, ECHO):  # no list of jobs, and no other model
        assert (await site.fetch(f"{allowing}/v1/jobs", key, body))["status"] == 403
