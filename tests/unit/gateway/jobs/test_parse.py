"""Large jobs are parsed by a worker process."""

from collections.abc import Collection
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.locations.allowed import AllowedLocations
from common.locations.buckets import Buckets
from common.locations.location import Location
from common.object_store.store import ObjectStore
from common.security.ssrf import AddressPolicy
from services.gateway.auth.store import Key
from services.gateway.http.problems import Problem
from services.gateway.jobs import parse
from services.gateway.jobs.idempotency.store import RequestKey
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.inputs.locations import InputLocations
from services.gateway.jobs.inputs.references import KnownFiles
from services.gateway.jobs.inputs.store import InputStore, StoredFile
from services.gateway.jobs.parse import NeedsFiles, SubmitContext, parse_job
from services.gateway.jobs.submit import Submitter
from tests.unit.fake_database import FakeDatabase
from tests.unit.gateway.parsing import LENGTHS, TRACEPARENT, FakeCatalogue, FakeWorkers


@pytest.mark.parametrize("size", LENGTHS)
async def test_a_large_job_is_parsed_by_a_worker(submitter: Submitter, workers: FakeWorkers, size: str) -> None:
    body = msgspec.json.encode({"model": "echo", "inputs": {"x": [0] * LENGTHS[size]}})
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT, RequestKey("key", b"digest"))
    job = await submitter.parse(body, context)
    assert (job.model, job.idempotency_key) == ("echo", "key")
    assert workers.ran == ([parse_job] if size == "large" else [])


async def test_all_inputs_of_a_job_have_a_limit(submitter: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    body = msgspec.json.encode({"model": "echo", "inputs": {"x": [0] * 100}})
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT)
    monkeypatch.setattr(parse, "MAX_INPUT_BYTES", 400)
    await submitter.parse(body, context)
    monkeypatch.setattr(parse, "MAX_INPUT_BYTES", 399)
    with pytest.raises(Problem, match="the inputs have 400 bytes; all of a job may have 399"):
        await submitter.parse(body, context)


NOWHERE = "s3://nowhere"


class NoFiles(InputStore):
    async def find_files(self, tenant_id: UUID, files: Collection[UUID]) -> dict[UUID, StoredFile]:
        return {}


@pytest.mark.parametrize("looked_up", [False, True])
@pytest.mark.parametrize("webhooks_open", [False, True])
async def test_inputs_come_from_their_own_networks(looked_up: bool, webhooks_open: bool) -> None:
    """Not from those that webhooks may go to; also if the job has files, which are looked up."""
    closed, loopback = AddressPolicy(), AddressPolicy.parse(["127.0.0.0/8"], allow_http=True)
    webhooks, inputs = (loopback, closed) if webhooks_open else (closed, loopback)
    database = FakeDatabase()
    locations = InputLocations(AllowedLocations(database, NOWHERE), Buckets(1.0))
    files = InputFiles(NoFiles(database), ObjectStore(NOWHERE), locations, 2**20, inputs)
    models = await FakeCatalogue().read()
    context = SubmitContext(ids.new(), TRACEPARENT, models, webhooks, max_tensor=2**20, input_policy=inputs)
    if looked_up:
        context = (await files.add_to(context, {}))._replace(input_policy=webhooks)
    body = msgspec.json.encode({"model": "echo", "inputs": {"x": {"url": "http://127.0.0.1/", "shape": [1]}}})
    if not webhooks_open:
        assert parse_job(body, context).model == "echo"
        return
    with pytest.raises(Problem) as refused:
        parse_job(body, context)
    assert [error.pointer for error in refused.value.errors] == ["/inputs/x/url"]


FOLDER = Location("bucket", "out/")


@pytest.mark.parametrize(
    ("text", "writable", "detail"),
    [
        ("s3://bucket/out/", {FOLDER}, None),
        ("s3://bucket/out/", (), "s3://bucket/out/ cannot be used: your tenant may not write there; an operator can"),
        ("s3://bucket/out", {FOLDER}, "cannot be used: it must end with /"),
        ("https://bucket/out/", {FOLDER}, "cannot be used: it must begin with s3://"),
    ],
)
async def test_outputs_go_only_where_the_tenant_may_write(
    submitter: Submitter, text: str, writable: Collection[Location], detail: str | None
) -> None:
    body = msgspec.json.encode({"model": "echo", "inputs": {"x": [0]}, "output": {"location": text}})
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT)
    if text == str(FOLDER):
        with pytest.raises(NeedsFiles) as needed:
            parse_job(body, context)
        assert needed.value.files == {FOLDER: False}
        context = context._replace(files=KnownFiles({}, 0, writable=writable))
    if detail is None:
        assert parse_job(body, context).output_location == text
        return
    with pytest.raises(Problem) as refused:
        parse_job(body, context)
    (error,) = refused.value.errors
    assert (error.pointer, error.detail.startswith(detail)) == ("/output/location", True)
