"""`charonia top`: on a terminal until a key ends it, in a pipe once."""

import asyncio

from deploy.local.stack import Stack
from tests.support.command_line import CommandLine, make_environment
from tests.support.stacks.key_command import make_key, revoke_key

ALTERNATE, NORMAL = "\x1b[?1049h", "\x1b[?1049l"


def test_a_pipe_gets_one_snapshot(charonia: CommandLine) -> None:
    charonia.read("run", "echo", "x=1")
    charonia.run("run", "faulty", "mode=invalid")
    (found,) = charonia.read("top")
    queues = {each["model"]: each for each in found["items"]}
    assert queues["echo"]["last_5_minutes"]["ended"] == 1
    assert found["dead_letters"] == 1
    assert "echo" in [each["name"] for each in found["models"]]
    told = charonia.tell("top")
    assert all(each in told for each in ("dead letters 1", "MODEL", "faulty", "ready"))


def test_a_terminal_is_refreshed_until_a_key(charonia: CommandLine) -> None:
    with charonia.on_terminal("top") as terminal:
        terminal.wait_for("waiting 0  running 0")
        assert ALTERNATE in terminal.raw
        (job,) = charonia.read("submit", "work", "ms=600000")
        try:
            terminal.wait_for("running 1", 60)  # the gateway repeats a count that was slow, for up to 30 s
        finally:
            charonia.read("cancel", job["id"])
        terminal.type("q")
        assert terminal.wait(15) == 0
        assert terminal.raw.rindex(NORMAL) > terminal.raw.rindex(ALTERNATE)


def test_an_outage_is_shown_and_top_goes_on_until_ctrl_c(breakable: Stack, charonia: CommandLine) -> None:
    with charonia.on_terminal("top") as terminal:
        terminal.wait_for("charonia top  http")
        breakable.gateways[0].kill()
        terminal.wait_for("the gateway is away, numbers are")
        breakable.gateways[0].start()
        seen = len(terminal.text)
        terminal.wait_until(lambda text: "charonia top  http" in text[seen:])
        terminal.interrupt()
        assert terminal.wait(15) == 0


async def test_a_revoked_key_ends_it(stack: Stack, charonia: CommandLine) -> None:
    key = await make_key(stack, "cli-top")
    charonia.environment |= {"CHARONIA_KEY": key}
    (own,) = charonia.read("keys")
    with charonia.on_terminal("top") as terminal:
        terminal.wait_for("charonia top  http")
        await revoke_key(stack, own["id"])
        assert await asyncio.to_thread(terminal.wait, 30) == 4
        assert "Set another key" in terminal.text


def test_a_gateway_that_is_away_from_the_start_is_an_error(charonia: CommandLine) -> None:
    charonia.environment = make_environment("http://127.0.0.1:9", "ch_x", charonia.home)
    with charonia.on_terminal("top") as terminal:
        assert terminal.wait(30) == 3
        assert ALTERNATE not in terminal.raw
