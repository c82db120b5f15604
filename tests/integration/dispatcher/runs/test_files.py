"""Tensors of runs are in files, if they are too large for a row."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids, tensors
from common.errors import StoreUnavailable, Unavailable
from common.job_states import Status
from common.jobs.job import JobToRun
from common.jobs.run import lock_runs
from common.object_store.keys import file_key
from common.object_store.pauses import Pauses
from common.object_store.store import ObjectStore
from common.pipelines import advance
from common.postgres.database import Database
from common.runs import tensor_files
from common.runs.progress import AGAIN_SECONDS
from common.runs.tensor_files import TensorFiles
from common.tensors import Datatype, FileContent, Tensor
from tests.integration.jobs import claim, look, new_end
from tests.integration.runs import STEPS, Runs, pack
from tests.integration.world import World
from tests.support.carrier import NOWHERE, make_carrier

INLINE = 8  # bytes: two numbers
ADD_FILE = """
INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, expires_at, job_id)
VALUES ($1, $2, 'ready', 'application/octet-stream', $3, '', 60, 'infinity', $4)
"""
FILES = "SELECT id, size, sha256, status FROM files WHERE job_id = $1"


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore(tmp_path.as_uri())


@pytest.fixture
async def runs(database: Database, tenant: UUID, tmp_path: Path) -> Runs:
    world = World(database, tenant)
    await world.begin()
    return Runs(world, make_carrier(database, tmp_path.as_uri(), INLINE))


async def claim_step(runs: Runs, run: UUID, step: str) -> list[JobToRun]:
    """Claim the waiting jobs of a step."""
    found = [each for each in await runs.database.fetch(STEPS, run) if each["step"] == step]
    return [await claim(runs.database, each["id"]) for each in found if each["status"] == "queued"]


async def end(runs: Runs, job: JobToRun, outputs: bytes) -> None:
    ended = new_end(job, parent=job.parent, step=job.step, step_index=job.step_index, raw_outputs=outputs)
    recorded, wake_ups = await runs.progress.end_steps([ended])
    assert recorded
    runs.world.wake_ups.announce(wake_ups)


async def read(runs: Runs, store: ObjectStore, tensor: Tensor) -> list[float]:
    """Return the numbers of a tensor."""
    data = tensor.data
    if isinstance(data, FileContent):
        reader = await store.read(file_key(runs.world.tenant, data.file_id), data.offset)
        data = b"".join([piece async for piece in reader.pieces])
    assert isinstance(data, bytes)
    return [*array("f", data)]


def unpack(job: JobToRun) -> Mapping[str, Tensor]:
    return {tensor.name: tensor for tensor in tensors.unpack(job.tensors)}


async def put(runs: Runs, store: ObjectStore, job: UUID, values: Sequence[float]) -> bytes:
    """Put an output of a job into a file. Return it as a dispatcher does."""

    async def send() -> AsyncIterator[bytes]:
        yield array("f", values).tobytes()

    file, size = ids.new(), 4 * len(values)
    await runs.database.fetch(ADD_FILE, file, runs.world.tenant, size, job)
    await store.put(file_key(runs.world.tenant, file), send())
    return tensors.pack([Tensor("y", Datatype.FP32, [len(values)], FileContent(file, 0, size))])


async def test_a_file_is_divided_and_what_is_joined_becomes_one(runs: Runs, store: ObjectStore) -> None:
    run = await runs.begin(1, 2, 3)
    (first,) = await claim_step(runs, run, "first")
    await end(runs, first, await put(runs, store, first.id, [2, 3, 4]))
    each = await claim_step(runs, run, "each")
    assert [await read(runs, store, unpack(job)["x"]) for job in each] == [[2], [3], [4]]
    for job, value in zip(each, (4, 6, 8), strict=True):
        await end(runs, job, pack("y", [value]))
    (last,) = await claim_step(runs, run, "last")
    joined = unpack(last)["x"]
    assert isinstance(joined.data, FileContent)
    assert (joined.shape, await read(runs, store, joined)) == ([3], [4, 6, 8])
    (kept,) = await runs.database.fetch("SELECT input_files FROM jobs WHERE id = $1", last.id)
    assert kept["input_files"] == [joined.data.file_id]
    await end(runs, last, pack("y", [18]))
    row = await runs.state(run)
    assert row["status"] == "succeeded"
    result, together = msgspec.json.decode(row["outputs"])
    assert result["data"] == [18.0]
    assert (together["name"], together["shape"], together["size"]) == ("all", [3], 12)
    assert together["sha256"] == sha256(array("f", [4, 6, 8]).tobytes()).hexdigest()
    assert {record["status"] for record in await runs.database.fetch(FILES, run)} == {"ready"}


async def test_outputs_in_files_are_joined(runs: Runs, store: ObjectStore) -> None:
    run = await runs.begin(1, 2)
    await runs.infer(run, "first")
    for job, values in zip(await claim_step(runs, run, "each"), ([1, 2, 3], [4]), strict=True):
        await end(runs, job, await put(runs, store, job.id, values) if len(values) > 2 else pack("y", values))
    (last,) = await claim_step(runs, run, "last")
    assert await read(runs, store, unpack(last)["x"]) == [1, 2, 3, 4]


async def test_an_end_that_needs_the_store_while_it_is_away_is_left_to_the_sweep(
    runs: Runs, store: ObjectStore, database: Database
) -> None:
    """So the job keeps no slot, and the end no connection. Ends that follow do not ask the store again."""
    run = await runs.begin(1, 2, 3)
    (first,) = await claim_step(runs, run, "first")
    away = Runs(runs.world, make_carrier(database))
    await end(away, first, await put(runs, store, first.id, [2, 3, 4]))
    assert (await look(database, first.id)).status is Status.SUCCEEDED
    assert await claim_step(runs, run, "each") == []
    await runs.carry_due()
    assert await claim_step(runs, run, "each") == []  # it is not due yet
    await runs.world.pass_time(AGAIN_SECONDS)
    with pytest.raises(StoreUnavailable):
        await away.carry_due()
    await runs.carry_due()
    assert (await runs.state(run))["scheduled_at"] is None
    each = await claim_step(runs, run, "each")
    assert [await read(runs, store, unpack(job)["x"]) for job in each] == [[2], [3], [4]]


async def test_ends_of_a_run_that_is_left_to_the_sweep_are_kept_for_it(
    runs: Runs, store: ObjectStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance, "WINDOW", 2)
    run = await runs.begin(1, 2, 3)
    (first,) = await claim_step(runs, run, "first")
    await end(runs, first, await put(runs, store, first.id, [2, 3, 4]))
    one, two = await claim_step(runs, run, "each")
    await end(Runs(runs.world, make_carrier(database)), one, pack("y", [4]))
    await end(runs, two, pack("y", [6]))  # the store is back, but only a sweep finds that
    assert await claim_step(runs, run, "each") == []
    await runs.world.pass_time(AGAIN_SECONDS)
    await runs.carry_due()
    (three,) = await claim_step(runs, run, "each")
    await end(runs, three, pack("y", [8]))
    (last,) = await claim_step(runs, run, "last")
    assert await read(runs, store, unpack(last)["x"]) == [4, 6, 8]


async def test_a_store_that_hangs_is_waited_for_once(
    runs: Runs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later calls fail at once for some time, so that many runs do not wait one after the other."""
    monkeypatch.setattr(tensor_files, "STORE_SECONDS", 0.05)
    reads: list[str] = []

    class Hanging(ObjectStore):
        async def read(self, key: str, start: int = 0, end: int | None = None) -> Any:
            reads.append(key)
            await asyncio.Event().wait()

    now = 0.0
    pauses = Pauses(lambda: now)
    files = TensorFiles(database, Hanging(NOWHERE), INLINE, pauses)
    ((run, _),) = await lock_runs(database, {await runs.begin(1)})
    tensor = Tensor("x", Datatype.FP32, [2], FileContent(ids.new(), 0, 8))
    for text in ("within 0.05 s", "just now", "just now"):
        with pytest.raises(StoreUnavailable, match=text):
            await files.load(run, tensor)
    assert len(reads) == 1
    now += pauses.left()
    with pytest.raises(StoreUnavailable, match="within"):
        await files.load(run, tensor)


async def test_a_transaction_that_fails_leaves_no_file(runs: Runs, store: ObjectStore, database: Database) -> None:
    run_id = await runs.begin(1)
    files = TensorFiles(database, store, INLINE)
    tensor = Tensor("x", Datatype.BYTES, [1], b"\x05\x00\x00\x00large")

    async def keep(*, fails: bool) -> None:
        async with files.transaction() as connection:
            ((run, _),) = await lock_runs(connection, [run_id])
            (kept,) = await files.keep(connection, run, [tensor])
            assert isinstance(kept.data, FileContent)
            if fails:
                raise Unavailable
            assert await files.load(run, kept) == tensor

    with pytest.raises(Unavailable):
        await keep(fails=True)
    await keep(fails=False)
    found = await database.fetch("SELECT status, job_id FROM files WHERE size = 5 ORDER BY status")
    assert [(each["status"], each["job_id"]) for each in found] == [("deleting", None), ("ready", run_id)]


async def test_a_run_fails_whose_file_is_gone(runs: Runs, store: ObjectStore) -> None:
    run = await runs.begin(1, 2, 3)
    (first,) = await claim_step(runs, run, "first")
    outputs = await put(runs, store, first.id, [2, 3, 4])
    (tensor,) = tensors.unpack(outputs)
    assert isinstance(tensor.data, FileContent)
    await store.delete([file_key(runs.world.tenant, tensor.data.file_id)])
    await end(runs, first, outputs)
    row = await runs.state(run)
    assert (row["status"], row["error_message"]) == (
        "failed",
        "step 'each' cannot start: the file of 'y' was deleted; submit a new job",
    )
