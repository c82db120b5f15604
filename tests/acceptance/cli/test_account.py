"""Keys, usage and the audit log on the command line."""

from charonia import Charonia

from deploy.local.stack import Stack
from tests.support.command_line import CommandLine, make_environment
from tests.support.waiting import eventually


def test_a_key_is_created_used_shown_and_revoked(charonia: CommandLine, stack: Stack) -> None:
    options = ["--scope=read", "--scope=submit", "--model=echo", "--rate-limit=50", "--expires-at=30d"]
    (made,) = charonia.read("keys", "create", "ci", *options)
    assert (made["name"], made["scopes"], made["models"]) == ("ci", ["read", "submit"], ["echo"])
    before = charonia.environment
    charonia.environment = before | {"CHARONIA_KEY": made["key"]}
    assert [each["name"] for each in charonia.read("models")] == ["echo"]
    charonia.environment = before
    assert [each["id"] for each in charonia.read("keys")] == [each["id"] for each in charonia.read("keys", "list")]
    (shown,) = charonia.read("keys", "show", made["id"])
    assert ("key" in shown, shown["rate_limit"]) == (False, 50)
    told = charonia.tell("keys", "show", made["id"])
    assert "50 requests/s" in told
    assert "ci" in charonia.tell("keys")
    refused = charonia.run("keys", "revoke", made["id"])
    assert (refused.returncode, "Revoke 1 key for good? There is nobody to ask; add --yes" in refused.stderr) == (
        2,
        True,
    )
    assert charonia.read("keys", "revoke", made["id"], "--yes") == [{"id": made["id"], "revoked": True}]
    charonia.environment = make_environment(stack.url, made["key"], charonia.home)
    assert charonia.run("models").returncode == 4


def test_a_new_key_is_shown_once_and_revoked_after_a_question(charonia: CommandLine) -> None:
    with charonia.on_terminal("keys", "create", "mine", "--scope=read") as terminal:
        assert terminal.wait() == 0
        assert "keep the key: it is shown only now" in terminal.text
        assert "key         ch_" in terminal.text
    *_, made = charonia.read("keys")
    for answer, code, left in (("n", 2, 2), ("y", 0, 1)):
        with charonia.on_terminal("keys", "revoke", made["id"]) as terminal:
            terminal.wait_for("[y/N]")
            terminal.type(f"{answer}\n")
            assert terminal.wait() == code
        assert len(charonia.read("keys")) == left


def test_a_wrong_scope_is_named(charonia: CommandLine) -> None:
    found = charonia.run("keys", "create", "ci", "--scope=write")
    assert (found.returncode, "write one of submit, read, admin" in found.stderr) == (2, True)


async def test_what_was_used_is_shown(charonia: CommandLine, client: Charonia) -> None:
    assert "no jobs ended" in charonia.tell("usage")
    charonia.read("run", "echo", "x=1")
    charonia.run("run", "faulty", "mode=invalid")

    async def poll() -> bool:
        return len(list(client.usage())) == 2

    await eventually(poll, "both jobs are counted")
    used = {each["model"]: each["jobs"] for each in charonia.read("usage", "--since=2d")}
    assert (used["echo"]["succeeded"], used["faulty"]["failed"]) == (1, 1)
    assert [each["model"] for each in charonia.read("usage", "--model=echo")] == ["echo"]
    assert charonia.read("usage", "--since=2020-01-01", "--until=2020-01-31") == []
    row = next(each for each in charonia.tell("usage").splitlines() if "echo" in each).split()
    assert row[1:5] == ["echo", "1", "0", "0"]


def test_changes_are_listed(charonia: CommandLine) -> None:
    (made,) = charonia.read("keys", "create", "ci", "--scope=read")
    for option in ("--since=1h", "--action=key.created", "--limit=1"):
        newest = charonia.read("audit", option)[0]
        assert (newest["action"], newest["target"]) == ("key.created", made["id"]), option
    assert made["id"] in charonia.tell("audit")
    assert charonia.read("audit", "--action=webhook.created") == []
