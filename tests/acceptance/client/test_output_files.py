"""Large outputs, which are in files, are read like small ones."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from charonia import AsyncCharonia, Charonia, CharoniaError

from deploy.local.stack import Stack
from tests.support.stacks.key_command import make_key

VALUES = np.arange(100_000, dtype="<f4").reshape(1, -1)
WORD = "x" * 300_000


@pytest.fixture
async def key(stack: Stack) -> str:
    """A key of a new tenant."""
    return await make_key(stack, f"client-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def client(stack: Stack, key: str) -> Iterator[Charonia]:
    with Charonia(stack.url, key) as client:
        yield client


def test_a_result_has_the_elements(client: Charonia) -> None:
    result = client.run("echo", x=VALUES)
    (output,) = result.tensors
    assert (output.file is not None, output.size, output.data) == (True, VALUES.nbytes, [])
    assert np.array_equal(result.numpy("y"), 2 * VALUES)
    assert result["y"][0][:3] == [0.0, 2.0, 4.0]


def test_an_output_is_saved_without_the_result(client: Charonia, tmp_path: Path) -> None:
    job = client.submit("echo", x=VALUES)
    steps: list[int] = []
    path = job.save_output("y", tmp_path / "y.bin", on_progress=steps.append)
    assert np.array_equal(np.fromfile(path, "<f4"), 2 * VALUES[0])
    assert steps[-1] == VALUES.nbytes
    small = client.submit("echo", x=[[1.0, 2.0]])
    assert np.fromfile(small.save_output("y", tmp_path / "small.bin"), "<f4").tolist() == [2.0, 4.0]
    with pytest.raises(KeyError, match="no output 'z'; there are 'y'"):
        job.save_output("z", tmp_path / "z.bin")
    result = job.result(download=False)
    with pytest.raises(CharoniaError, match="is not downloaded"):
        result.numpy("y")


def test_streams_and_maps_have_the_elements(client: Charonia) -> None:
    assert [part.text for part in client.stream("tokens", text=f"a {WORD} b")] == ["a", f" {WORD}", " b"]
    (done,) = client.map("echo", [VALUES])
    assert np.array_equal(done.result.numpy("y"), 2 * VALUES)


def test_more_than_a_result_may_hold_is_named(client: Charonia, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charonia._sync.output_files.MAX_DOWNLOAD", 1000)
    with pytest.raises(CharoniaError, match=r"a result holds 1000; read each with client\.jobs\.get") as caught:
        client.run("echo", x=VALUES)
    assert caught.value.job_id is not None
    (done,) = client.map("echo", [VALUES])
    assert isinstance(done.error, CharoniaError)
    first, second, third = client.stream("tokens", text=f"a {WORD} b")
    assert (first.text, second.tensors[0].size, third.text) == ("a", len(WORD) + 1, " b")


async def test_the_other_half_and_a_key_that_may_only_submit(stack: Stack) -> None:
    key = await make_key(stack, f"client-{uuid.uuid4().hex[:8]}", "--scope", "submit")
    async with AsyncCharonia(stack.url, key) as client:
        result = await client.run("tokens", text=WORD)
        assert result.text == WORD
