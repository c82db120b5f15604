"""The language models `chat` and `embed`, through ordinary jobs. They are real: their weights answer on a CPU."""

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
import openai
import pytest
from charonia import Charonia
from standardwebhooks import Webhook

from deploy.local.demo import language as demo
from deploy.local.demo.inbox import Inbox
from deploy.local.processes.ports import HOST, free_ports
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import LANGUAGE_MODELS, ROOT, Settings
from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.api.api_client import Api, Job
from tests.support.api.event_stream import read_events, stream_events
from tests.support.guides import read_blocks, run_python, use
from tests.support.language_models import STUBS, ask, join_text
from tests.support.stacks.triton_stack import TritonStack

GUIDE = ROOT / "docs" / "how-to" / "language-models.md"
CLIENT_GUIDE = ROOT / "docs" / "how-to" / "openai-client.md"
RECEIVER = "class Receiver"  # the example that serves until it is stopped
QUESTION = "Name the capital of France."
ENDLESS = ask("Count from 1 to 10000, one number a line.", max_tokens=4000, temperature=0)
# The end of a response that was deleted before its webhook came.
DELETED = (
    b'{"object": "event", "id": "evt_1", "type": "response.completed", "created_at": 1, '
    b'"data": {"id": "resp_01m8hscxvvfz4vjz9xty5ajyby"}}'
)
SENTENCES = ["A cat sits on the mat.", "A kitten rests on a rug.", "The stock market fell today."]


@pytest.fixture(scope="module")
def language(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = Settings.private(tmp_path_factory.mktemp("language"))
    language = TritonStack(stack, replace(settings, model_repository=LANGUAGE_MODELS, models=STUBS))
    try:
        with language:
            yield language
    finally:
        language.postgres.delete()


@pytest.fixture
async def api(language: Stack) -> AsyncIterator[Api]:
    async with open_client(language, DEVELOPMENT_KEY) as client:
        yield client


def outputs(job: Job) -> list[dict[str, Any]]:
    assert job.status == "succeeded", job.error
    found: list[dict[str, Any]] = msgspec.to_builtins(job.outputs)
    return found


async def say(api: Api, content: str, **more: object) -> str:
    return join_text(outputs(await api.run("chat", ask(content, **more))))


async def embed(api: Api, *texts: str) -> list[list[float]]:
    job = await api.run("embed", {"text": [[text] for text in texts]})
    (found,) = (each for each in outputs(job) if each["name"] == "embedding")
    assert found["shape"] == [len(texts), 384]
    data: list[float] = found["data"]
    return [data[start : start + 384] for start in range(0, len(data), 384)]


def multiply(one: list[float], other: list[float]) -> float:
    """Return the cosine of two vectors of length 1."""
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_an_answer_is_streamed_and_ends_with_its_usage(api: Api) -> None:
    job = await api.run("chat", ask(QUESTION, max_tokens=20, temperature=0))
    text = join_text(outputs(job))
    assert "Paris" in text
    parts = [event.data["outputs"] for event in await read_events(api.http, job.id) if event.type == "job.output"]
    assert len(parts) > 3
    assert "".join(join_text(part) for part in parts) == text
    assert [[each["name"] for each in part] for part in parts[:-1]] == [["text"]] * (len(parts) - 1)
    ended = {each["name"]: each["data"][0] for each in parts[-1]}
    assert (ended["text"], ended["finish_reason"]) == ("", "stop")
    usage = msgspec.json.decode(ended["usage"])
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] >= len(parts) - 1


async def test_max_tokens_and_stop_strings_end_the_text(api: Api) -> None:
    short = outputs(await api.run("chat", ask(QUESTION, max_tokens=3, temperature=0)))
    (reason,) = (each["data"] for each in short if each["name"] == "finish_reason")
    assert (len(join_text(short).split()), reason) == (3, ["length"])
    whole = await say(api, QUESTION, max_tokens=20, temperature=0)
    before, found, _ = whole.partition("Paris")
    assert found
    assert await say(api, QUESTION, max_tokens=20, temperature=0, stop="Paris") == before


async def test_the_same_seed_gives_the_same_text(api: Api) -> None:
    hot = {"max_tokens": 12, "temperature": 2}
    first = await say(api, "Tell me a story.", seed=5, **hot)
    assert await say(api, "Tell me a story.", seed=6, **hot) != first  # and it may be kept for what comes next
    assert await say(api, "Tell me a story.", seed=5, **hot) == first


async def test_a_cancel_stops_the_model(api: Api) -> None:
    """One request runs at a time, and the endless one takes minutes. So the second shows that the first has stopped."""
    job = await api.submit("chat", ENDLESS)
    async for event in stream_events(api.http, job.id):
        if event.type == "job.output":
            break
    assert (await api.http.post(f"/v1/jobs/{job.id}/cancel")).is_success
    assert (await api.wait(job.id)).status == "canceled"
    assert await say(api, QUESTION, max_tokens=1)


async def test_what_chat_cannot_do_fails_the_job_and_is_named(api: Api) -> None:
    refused = await api.run("chat", ask(QUESTION, tools=[{"type": "function"}]))
    assert (refused.status, refused.attempt) == ("failed", 1)
    assert refused.error is not None
    assert refused.error.message == "INVALID_ARG: tools: this model cannot do that; leave it out"
    long = (await api.run("chat", ask("word " * 5000))).error
    assert long is not None
    assert (long.code, long.retryable) == ("invalid_input", False)
    assert long.message.startswith("INVALID_ARG: context_length_exceeded: messages: have ")
    assert "tokens; with the answer, 4096 are allowed: send fewer" in long.message


async def test_similar_sentences_are_nearer(api: Api) -> None:
    cat, kitten, market = await embed(api, *SENTENCES)
    assert multiply(cat, cat) == pytest.approx(1, abs=1e-4)
    assert multiply(cat, kitten) > 0.5 > 0.3 > multiply(cat, market)
    (alone,) = await embed(api, SENTENCES[0])
    assert alone == pytest.approx(cat, abs=1e-5)  # whatever is beside it


async def test_tokens_of_a_text_are_counted_and_limited(api: Api) -> None:
    job = await api.run("embed", {"text": [["hello"], ["hello world"]]})
    (counts,) = (each["data"] for each in outputs(job) if each["name"] == "tokens")
    assert counts == [3, 4]  # with the marks of beginning and end
    error = (await api.run("embed", {"text": [["hello"], ["hi " * 300]]})).error
    assert error is not None
    assert (error.code, error.message) == (
        "invalid_input",
        "INVALID_ARG: context_length_exceeded: text: has 302 tokens, and 256 are allowed: send a shorter text",
    )


def test_the_examples_of_the_guide_work(language: Stack, tmp_path: Path) -> None:
    chat, embeddings = (run_python(language, tmp_path, block) for block in read_blocks(GUIDE, "python"))
    assert "Paris" in chat
    assert "completion_tokens" not in chat  # of the usage, another output
    assert float(embeddings) > 0.5


def test_the_examples_of_the_guide_for_openais_client_work(language: Stack, tmp_path: Path) -> None:
    blocks = [block for block in read_blocks(CLIENT_GUIDE, "python") if RECEIVER not in block]
    printed = run_python(language, tmp_path, "\n".join(blocks))
    assert "chat ['/v1/chat/completions', '/v1/responses']" in printed
    assert printed.count("Paris") == 2
    assert "completed " in printed
    assert "2 384" in printed
    assert "job_" in printed


def sign(body: bytes, secret: str) -> tuple[bytes, dict[str, str]]:
    """Return a webhook with its headers, as a notifier sends it."""
    at = datetime.now(UTC)
    signature = Webhook(secret).sign("dlv_1", at, body.decode())
    stamp = str(int(at.timestamp()))
    return body, {"webhook-id": "dlv_1", "webhook-timestamp": stamp, "webhook-signature": signature}


@pytest.fixture
def webhook_client(language: Stack) -> Iterator[Charonia]:
    with Charonia(language.url, DEVELOPMENT_KEY) as client:
        yield client


def test_the_receiver_of_the_guide_reads_a_webhook(
    language: Stack, webhook_client: Charonia, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{language.url}/openai/v1")
    monkeypatch.setenv("OPENAI_API_KEY", DEVELOPMENT_KEY)
    (block,) = (use(language, block) for block in read_blocks(CLIENT_GUIDE, "python") if RECEIVER in block)
    (port,) = free_ports(1)
    webhook = webhook_client.webhooks.create(f"http://{HOST}:{port}/hook", format="openai")
    assert webhook.secret is not None
    names: dict[str, Any] = {"__name__": "example"}
    exec(block.replace("whsec_…", webhook.secret), names)  # noqa: S102 -- our own documentation
    with HTTPServer((HOST, port), names["Receiver"]) as server:
        answers: list[Future[httpx.Response]] = []
        for content, headers in ((b"{}", {}), sign(DELETED, webhook.secret)):
            with ThreadPoolExecutor(1) as pool:
                answers.append(pool.submit(httpx.post, webhook.url, content=content, headers=headers, trust_env=False))
                server.handle_request()
        assert [each.result().status_code for each in answers] == [401, 204]
        names["client"].responses.create(model="chat", input=QUESTION, background=True, temperature=0)
        server.timeout = 60
        server.handle_request()
    webhook_client.webhooks.delete(webhook.id)
    assert "Paris" in capsys.readouterr().out


def test_the_demo_ends_with_a_verified_webhook_and_the_answer(
    language: Stack, webhook_client: Charonia, capsys: pytest.CaptureFixture[str]
) -> None:
    with Inbox() as inbox:
        webhook = webhook_client.webhooks.create(f"{inbox.url}/webhook", format="openai", events=["response.*"])
        with openai.OpenAI(
            base_url=f"{language.url}/openai/v1", api_key=DEVELOPMENT_KEY, webhook_secret=webhook.secret
        ) as client:
            demo.ask(client, inbox, language)
        webhook_client.webhooks.delete(webhook.id)
    told = capsys.readouterr().out
    assert "response.completed" in told
    assert "The capital of France is Paris." in told
