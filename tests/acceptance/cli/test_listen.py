"""`charonia listen` prints all events, and forwards them to a server on this machine."""

import asyncio
import re
import secrets
import shlex
import signal
import subprocess
import uuid
from base64 import b64encode
from collections import defaultdict
from pathlib import Path

import charonia as library
import pytest
from charonia import Charonia, JobEvent

from deploy.local.stack import Stack
from tests.support.command_line import CommandLine, read_lines
from tests.support.receivers.slow_receiver import SlowInbox
from tests.support.receivers.threaded_server import ReceivedRequest, Reply
from tests.support.receivers.webhook_receiver import Delivery, Receiver
from tests.support.stacks.key_command import make_key, revoke_key
from tests.support.waiting import eventually

SECRET = f"whsec_{b64encode(secrets.token_bytes(32)).decode()}"
INTERRUPTED, USAGE, REFUSED = 130, 2, 4
ENDS = ("job.succeeded", "job.failed", "batch.completed")


class LocalServer(SlowInbox):
    """The user's server. It keeps what it accepted, by job. While it is held, requests wait."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.accepted: dict[str, list[Delivery]] = defaultdict(list)
        self.refused = ""  # the id of an event that it never accepts
        self.released.set()

    def receive(self, request: ReceivedRequest) -> int | Reply:
        answer = super().receive(request)
        delivery = Delivery(request, 0)
        if delivery.id == self.refused:
            return 500
        if answer == 204:
            event = library.verify(request.body, request.headers, SECRET)
            assert event.id == delivery.id
            self.accepted[getattr(event.data, "id", "")].append(delivery)
        return answer

    @property
    def count(self) -> int:
        return sum(map(len, self.accepted.values()))

    async def wait_for(self, count: int, within: float = 60) -> None:  # type: ignore[override]
        async def poll() -> bool:
            return self.count >= count

        await eventually(poll, f"{count} accepted events", within)


@pytest.fixture
def server(own_receiver: Receiver) -> LocalServer:
    return own_receiver.add_inbox(LocalServer)


def list_by_job(client: Charonia, *batches: str) -> dict[str, list[str]]:
    """Return the ids of all events by the job or batch that they are about, in order.

    Wait for the ends of jobs that have ended, and of batches: a list has none newer than a transaction under way.
    """
    ended = {job.id for job in client.jobs.list() if job.has_ended} | {*batches}
    for end in client.events.follow(types=ENDS, after="oldest", timeout=30):
        ended.discard(getattr(end.data, "id", ""))
        if not ended:
            break
    found: dict[str, list[str]] = defaultdict(list)
    for event in client.events.list():
        found[getattr(event.data, "id", "")].append(event.id)
    return found


def list_accepted(server: LocalServer) -> dict[str, list[str]]:
    return {subject: [each.id for each in deliveries] for subject, deliveries in server.accepted.items()}


def stop(listening: "subprocess.Popen[str]") -> tuple[int, str]:
    """Interrupt, and return the exit code and what people were told."""
    listening.send_signal(signal.SIGINT)
    _, notes = listening.communicate(timeout=20)
    return listening.returncode, notes


async def test_all_arrives_in_order_at_a_server_that_is_down_slow_then_up(
    charonia: CommandLine, client: Charonia, server: LocalServer, own_receiver: Receiver, receiver: Receiver
) -> None:
    """The same events go to a subscription: the bodies are the same, byte for byte."""
    inbox = receiver.inbox()
    client.webhooks.create(inbox.url, events=["*"])  # without it, starts are not recorded
    own_receiver.close()
    with charonia.on_terminal("listen", "--forward", server.url, "--after", "oldest", "--secret", SECRET) as terminal:
        jobs = [client.submit("echo", x=number) for number in range(20)]
        jobs += [client.submit("tokens", text="one two three", delay_ms=50) for _ in range(3)]
        jobs += [client.submit("faulty", mode="invalid") for _ in range(3)]
        jobs += [client.submit("faulty", mode="fail_times", value=1, key=uuid.uuid4().hex) for _ in range(3)]
        batch = client.batches.create("echo", [{"x": number} for number in range(5)])
        terminal.wait_for("unreachable, retrying")
        server.released.clear()
        own_receiver.open()

        async def is_slow() -> bool:
            return server.waiting > 5

        await eventually(is_slow, "several requests at once")
        server.answers.extend([500, Reply(302, {"location": server.url}), 410, 429, Reply(200, body=70_000 * b"x")])
        server.released.set()
        for job in jobs:
            job.wait(timeout=60)
        client.batches.wait(batch.id, timeout=60)
        expected = list_by_job(client, batch.id)
        await server.wait_for(sum(map(len, expected.values())))
        assert list_accepted(server) == expected
        assert {job.id for job in jobs} < set(expected)
        assert max(map(len, expected.values())) > 2  # attempts of a job
        assert not server.answers  # each was for an event that came again
        terminal.interrupt()
        assert terminal.wait(20) == INTERRUPTED
        assert terminal.text.count("unreachable, retrying") == 1
    webhooks = await inbox.wait(server.count)
    bodies = {each.body for deliveries in server.accepted.values() for each in (one.request for one in deliveries)}
    assert bodies == {each.request.body for each in webhooks}
    sent, forwarded = webhooks[0].request.headers, next(iter(server.accepted.values()))[0].request.headers
    for name in ("content-type", "user-agent", "accept-encoding"):
        assert forwarded[name] == sent[name]


async def test_a_killed_gateway_loses_and_doubles_nothing(
    breakable: Stack, charonia: CommandLine, client: Charonia, server: LocalServer
) -> None:
    listening = charonia.start("listen", "--forward", server.url, "--after", "oldest", "--secret", SECRET)
    jobs = [client.submit("work", ms=20 * number) for number in range(30)]
    await server.wait_for(10)
    breakable.gateways[0].kill()
    await asyncio.to_thread(breakable.gateways[0].start)
    await server.wait_for(len(jobs))
    assert list_accepted(server) == list_by_job(client)
    assert sorted(server.accepted) == sorted(job.id for job in jobs)
    code, notes = stop(listening)
    assert code == INTERRUPTED
    assert notes.count("the gateway closed the connection; connecting again") == 1
    assert "Traceback" not in notes


async def test_ctrl_c_ends_at_once_and_says_how_to_go_on(
    charonia: CommandLine, client: Charonia, server: LocalServer
) -> None:
    for number in range(3):
        client.run("echo", x=number)
    arguments = ("listen", "--forward", server.url, "--event", "job.*")
    with charonia.on_terminal(*arguments, "--after", "oldest", CHARONIA_WEBHOOK_SECRET=SECRET) as terminal:
        await server.wait_for(3)
        server.released.clear()
        for number in range(3):
            client.run("echo", x=number)

        async def is_held() -> bool:
            return server.waiting == 3

        await eventually(is_held, "three requests at once")
        terminal.interrupt()
        assert terminal.wait(10) == INTERRUPTED  # without waiting for the requests, which may take 15 s
        command = re.sub(r"\s+", " ", terminal.text).partition("go on from here: charonia ")[2]
        assert SECRET not in terminal.text
    server.released.set()
    await server.wait_for(6)  # what was under way when it ended
    server.accepted.clear()
    with charonia.on_terminal(*shlex.split(command), CHARONIA_WEBHOOK_SECRET=SECRET) as terminal:
        await server.wait_for(3)
        client.run("echo", x=7)
        await server.wait_for(4)
    assert list(list_accepted(server).values())[-1] == list(list_by_job(client).values())[-1]
    assert list_accepted(server).items() == dict(list(list_by_job(client).items())[3:]).items()


async def test_events_are_printed(charonia: CommandLine, client: Charonia) -> None:
    done = client.run("echo", x=1).job
    failed = client.submit("faulty", mode="invalid")
    failed.wait(timeout=30)
    list_by_job(client)  # now both ends are in the feed, so that a new listener does not see them
    with charonia.on_terminal("listen") as terminal:
        terminal.wait_for("listening; Ctrl-C")
        client.run("echo", x=2)
        terminal.wait_for("job.succeeded")
        assert done.id not in terminal.text
    with charonia.on_terminal("listen", "--after", "oldest", "--event", "job.failed") as terminal:
        line = terminal.wait_for("faulty  invalid_inpu…").splitlines()[1]
        assert (len(line), done.id not in terminal.text) == (80, True)
        assert line.split()[1:4] == ["job.failed", failed.id, "faulty"]
    listening = charonia.start("listen", "--after", "oldest")
    lines = read_lines(listening, 3)
    code, notes = stop(listening)
    assert code == INTERRUPTED
    assert f"go on from here: charonia listen --after {lines[-1]['position']}" in notes
    assert [each["id"] for each in lines] == [each.id for each in client.events.list()]
    assert [each["data"]["id"] for each in lines[:2]] == [done.id, failed.id]


async def test_an_event_that_is_not_accepted_is_given_up(
    charonia: CommandLine, client: Charonia, server: LocalServer, receiver: Receiver
) -> None:
    client.webhooks.create(receiver.inbox().url, events=["*"])
    job = client.run("echo", x=1).job
    (refused, accepted) = list_by_job(client)[job.id]
    server.refused = refused
    arguments = ("--forward", server.url, "--after", "oldest", "--secret", SECRET)
    listening = charonia.start("listen", *arguments, "--give-up-after", "5")
    lines = read_lines(listening, 3)
    assert [(each["id"], each["status_code"], each["given_up"]) for each in lines] == [
        (refused, 500, False),
        (refused, 500, True),
        (accepted, 204, False),
    ]
    code, notes = stop(listening)
    assert (code, "did not accept: 1" in notes) == (INTERRUPTED, True)
    assert ("give the same --secret again" in notes, SECRET in notes) == (True, False)


async def test_a_revoked_key_ends_it(stack: Stack, tmp_path: Path, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    key = await make_key(stack, f"cli-{uuid.uuid4().hex[:8]}")
    with CommandLine(stack, key, tmp_path).on_terminal("listen", "--forward", inbox.url) as terminal:
        terminal.wait_for("signing with your tenant's secret, what `charonia webhooks secret` prints")
        with Charonia(stack.url, key) as client:
            (own,) = client.keys.list()
            job = client.run("echo", x=1).job
            secret = client.webhooks.get_secret().secret
        terminal.wait_for(f"{job.id}  204")
        (forwarded,) = inbox.deliveries
        event = library.verify(forwarded.request.body, forwarded.request.headers, secret)
        assert isinstance(event, JobEvent)
        assert event.data.id == job.id
        await revoke_key(stack, own.id)
        assert terminal.wait(30) == REFUSED
        assert "charonia: 401" in terminal.text
        assert secret not in terminal.text
        assert f"--after {forwarded.id}." in re.sub(r"\s+", " ", terminal.text)
        assert "Traceback" not in terminal.text


async def test_a_key_that_may_not_read_the_secret_signs_with_a_new_one_and_refusals_are_explained(
    stack: Stack, tmp_path: Path, receiver: Receiver
) -> None:
    key = await make_key(stack, f"cli-{uuid.uuid4().hex[:8]}", "--scope", "submit", "read")
    inbox = receiver.inbox(401, 403)
    with CommandLine(stack, key, tmp_path).on_terminal("listen", "--forward", inbox.url) as terminal:
        (secret,) = re.findall(r"whsec_\S+", terminal.wait_for("secret of this run: whsec_"))
        with Charonia(stack.url, key) as client:
            job = client.run("echo", x=1).job
        text = " ".join(terminal.wait_for(f"{job.id}  204").split())
        assert "401: the server verifies with another secret. Give it the secret of this run, or" in text
        assert "403: the server refuses the request before it verifies it." in text
        accepted = inbox.deliveries[-1].request
        assert library.verify(accepted.body, accepted.headers, secret).type == "job.succeeded"
        terminal.interrupt()
        assert terminal.wait(10) == INTERRUPTED
        assert f"--secret {secret}" in " ".join(terminal.text.split())


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--forward", "localhost:3000"], USAGE, "write http://localhost:3000/hook"),
        (["--forward", "http://localhost:99999/"], USAGE, "write http://localhost:3000/hook"),
        (["--forward", "http://localhost:1", "--secret", "whpk_AAAA"], USAGE, "the secret must be whsec_"),
        (["--after", f"evt_{26 * '0'}"], REFUSED, "event not found"),
        (["--event", "job.nothing"], REFUSED, "or a pattern such as job.*"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_mistakes_say_what_to_do(charonia: CommandLine, arguments: list[str], code: int, text: str) -> None:
    found = charonia.run("listen", *arguments)
    assert (found.returncode, found.stdout) == (code, "")
    assert text in " ".join(found.stderr.split())
    assert "go on" not in found.stderr
