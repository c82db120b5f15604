"""Webhooks on the command line: subscriptions, deliveries, recovery and signatures."""

import json
from http import HTTPStatus
from pathlib import Path

import pytest
from charonia import Charonia

from tests.support.command_line import CommandLine
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.waiting import eventually

REFUSAL = HTTPStatus.INTERNAL_SERVER_ERROR


def test_a_webhook_is_created_changed_and_deleted(charonia: CommandLine, receiver: Receiver) -> None:
    assert "no webhooks" in charonia.tell("webhooks")
    options = ["--event=job.failed", "--event=batch.*", "--model=echo", "--header=x-a: b", "--ordered"]
    (made,) = charonia.read("webhooks", "create", receiver.inbox().url, *options)
    assert (made["events"], made["models"], made["ordered"]) == (["job.failed", "batch.*"], ["echo"], True)
    assert made["secret"].startswith("whsec_")
    webhook = made["id"]
    assert [each["id"] for each in charonia.read("webhooks")] == [webhook]
    assert webhook in charonia.tell("webhooks", "list")
    changes = ["--event=job.*", "--description=a note", "--rate-limit=5", "--no-ordered", "--clear=models"]
    (changed,) = charonia.read("webhooks", "update", webhook, *changes)
    assert (changed["description"], changed["models"], changed["ordered"]) == ("a note", None, False)
    told = charonia.tell("webhooks", "show", webhook)
    assert all(each in told for each in (webhook, "a note", "5 attempts/s", "enabled", "x-a"))
    (rotated,) = charonia.read("webhooks", "rotate", webhook, "--grace-period=60")
    assert rotated["secret"] != made["secret"]
    assert "enabled" in charonia.tell("webhooks", "enable", webhook)
    nobody = charonia.run("webhooks", "delete", webhook)
    assert (nobody.returncode, "add --yes" in nobody.stderr) == (2, True)
    assert charonia.read("webhooks", "delete", webhook, "--yes") == [{"id": webhook, "deleted": True}]
    assert charonia.run("webhooks", "show", webhook).returncode == 4


def test_a_new_secret_is_shown_once(charonia: CommandLine, receiver: Receiver) -> None:
    with charonia.on_terminal("webhooks", "create", receiver.inbox().url) as terminal:
        assert terminal.wait() == 0
        assert "keep the secret: it is shown only now" in terminal.text
        assert "whsec_" in terminal.text
        assert "try it: charonia webhooks test whk_" in terminal.text
    assert "whpk_" in charonia.tell("webhooks", "create", receiver.inbox().url, "--signing=ed25519")


def test_the_secret_of_the_tenant_is_shown_and_replaced(charonia: CommandLine) -> None:
    first, (as_json,) = charonia.run("webhooks", "secret").stdout, charonia.read("webhooks", "secret", "--json")
    assert first == f"{as_json['secret']}\n"
    with charonia.on_terminal("webhooks", "secret") as terminal:
        assert terminal.wait() == 0
        assert terminal.text.split() == first.split()
    second = charonia.run("webhooks", "secret", "--rotate")
    assert second.stdout.startswith("whsec_")
    assert (second.stdout != first, "the old secret signs too, until " in second.stderr) == (True, True)


def test_a_refused_test_has_a_code_and_its_delivery_shows_why(charonia: CommandLine, receiver: Receiver) -> None:
    inbox = receiver.inbox(HTTPStatus.NO_CONTENT, REFUSAL)
    (made,) = charonia.read("webhooks", "create", inbox.url)
    assert charonia.read("webhooks", "test", made["id"])[0]["status_code"] == HTTPStatus.NO_CONTENT
    refused = charonia.run("webhooks", "test", made["id"], "--no-json")
    assert (refused.returncode, "500" in refused.stdout) == (1, True)
    newest, oldest = charonia.read("deliveries", "--webhook", made["id"])
    assert (newest["event_type"], oldest["status"]) == ("webhook.test", "succeeded")
    assert oldest["id"] in charonia.tell("deliveries", "--webhook", made["id"], "--status=succeeded")
    told = charonia.tell("delivery", newest["id"])
    assert all(each in told for each in (newest["id"], inbox.url, "TRY", "500"))
    assert charonia.read("delivery", oldest["id"])[0]["attempts"][0]["status_code"] == HTTPStatus.NO_CONTENT


async def test_deliveries_of_a_job_are_sent_again(charonia: CommandLine, client: Charonia, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    (job,) = charonia.read("run", "echo", "x=1", f"--webhook={inbox.url}")
    await inbox.wait()
    await eventually_recorded(client, job["id"])
    (delivery,) = (each["id"] for each in charonia.read("deliveries", "--job", job["id"]))
    assert charonia.read("redeliver", delivery)[0]["id"] == delivery
    first, second = await inbox.wait(2)
    assert first.id == second.id
    partly = charonia.run("redeliver", "dlv_unknown", delivery)
    assert (partly.returncode, delivery in partly.stdout, "dlv_unknown" in partly.stderr) == (4, True, True)
    assert f"{delivery} " in charonia.tell("redeliver", delivery)
    assert charonia.run("deliveries").returncode == charonia.run("deliveries", "--job=a", "--webhook=b").returncode == 2


async def eventually_recorded(client: Charonia, job: str) -> None:
    """Wait until the attempt of a job's only delivery is over: while it runs, nothing is sent again."""

    async def poll() -> bool:
        return [each.status for each in client.jobs.get(job).deliveries()] == ["succeeded"]

    await eventually(poll, f"the webhook of {job} is recorded")


async def test_what_failed_is_recovered(charonia: CommandLine, client: Charonia, receiver: Receiver) -> None:
    inbox = receiver.inbox(*[REFUSAL] * 5)
    (made,) = charonia.read("webhooks", "create", inbox.url, "--event=job.succeeded")
    charonia.read("run", "echo", "x=1")
    await inbox.wait(5)
    await eventually_exhausted(client, made["id"])
    (done,) = charonia.read("recover", made["id"], "--since=1h")
    assert (done["status"], done["recovered"]) == ("completed", 1)
    await inbox.wait(6)
    with charonia.on_terminal("recover", made["id"], "--since=1h") as terminal:
        assert terminal.wait() == 0
        assert f"queued 0 deliveries of {made['id']} again" in terminal.text
    wrong = charonia.run("recover", made["id"], "--since=soon")
    assert (wrong.returncode, "--since 'soon' is no time" in wrong.stderr) == (2, True)


async def eventually_exhausted(client: Charonia, webhook: str) -> None:
    async def poll() -> bool:
        return [each.status for each in client.webhooks.deliveries(webhook)] == ["exhausted"]

    await eventually(poll, f"the delivery to {webhook} is exhausted")


@pytest.fixture
async def saved(charonia: CommandLine, receiver: Receiver, tmp_path: Path) -> str:
    """The secret of a webhook that lies in body.json and headers.txt."""
    inbox = receiver.inbox()
    (made,) = charonia.read("webhooks", "create", inbox.url)
    charonia.read("webhooks", "test", made["id"])
    (delivery,) = await inbox.wait()
    (tmp_path / "body.json").write_bytes(delivery.request.body)
    lines = [f"{name}: {value}" for name, value in delivery.request.headers.items()]
    (tmp_path / "headers.txt").write_text("\r\n".join(lines) + "\r\n\r\n")
    (tmp_path / "headers.json").write_text(json.dumps(delivery.request.headers))
    return str(made["secret"])


def test_a_saved_webhook_is_verified(charonia: CommandLine, saved: str, tmp_path: Path) -> None:
    verify = ["verify", "body.json", "--header-file"]
    (event,) = charonia.read(*verify, "headers.txt", "--secret", saved)
    assert event == {"id": event["id"], **json.loads((tmp_path / "body.json").read_text())}
    charonia.environment["CHARONIA_WEBHOOK_SECRET"] = saved
    assert charonia.read(*verify, "headers.json", "--tolerance=300") == [event]
    headers = json.loads((tmp_path / "headers.json").read_text())
    given = [f"--header={name}:{headers[name]}" for name in headers if name.startswith("webhook-")]
    assert charonia.read("verify", *given, stdin=(tmp_path / "body.json").read_text()) == [event]
    told = charonia.tell(*verify, "headers.txt")
    assert all(each in told for each in ("signature", "right", "webhook.test", event["id"]))


def test_a_wrong_webhook_is_refused(charonia: CommandLine, saved: str, tmp_path: Path) -> None:
    good = ["--header-file=headers.txt", f"--secret={saved}"]
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "broken.json").write_text("{")
    for arguments, code, text in [
        (["other.json", *good], 1, "no signature matches"),
        (["body.json", *good, "--header=webhook-timestamp:1"], 1, "no signature matches"),
        (["body.json", *good, "--tolerance=0"], 1, "allowed"),
        (["body.json", f"--secret={saved}"], 1, "the request has no webhook-id"),
        (["body.json", "--header-file=headers.txt"], 2, "no secret is known"),
        (["body.json", "--header-file=headers.txt", "--secret=x"], 2, "must be the subscription's"),
        (["missing.json", *good], 2, "cannot be read"),
        (["body.json", "--header-file=broken.json", f"--secret={saved}"], 2, "no JSON object"),
    ]:
        found = charonia.run("verify", *arguments)
        assert (found.returncode, found.stdout) == (code, ""), (arguments, found.stderr)
        assert text in found.stderr
        assert saved not in found.stderr
