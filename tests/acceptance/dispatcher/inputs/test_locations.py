"""Jobs read inputs from buckets that an operator lets their tenant read."""

import io
from collections.abc import AsyncIterator

import numpy as np
import pytest

from deploy.local.stack import Stack
from tests.support.api.model_inputs import IMAGE, LINES
from tests.support.stacks.customer import Customer, open_customer
from tests.support.stacks.on_s3 import OnS3


@pytest.fixture
async def customer(stack: Stack, shared_on_s3: OnS3, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Customer]:
    """A customer that may read the folder `in/` of its bucket."""
    async with open_customer(stack, shared_on_s3, monkeypatch) as customer:
        allowed = await customer.run_command("allow", customer.name, f"s3://{customer.bucket}/in/")
        assert allowed == (0, f"{customer.name}: s3://{customer.bucket}/in/ (read)")
        yield customer


async def test_inputs_are_read_from_a_bucket(customer: Customer) -> None:
    url, array = await customer.put("in/scan.png", IMAGE), io.BytesIO()
    np.save(array, np.array([[1.0, 2.5]], "<f4"))
    job = await customer.api.run("ocr", {"image": {"url": url}})
    assert (job.status, job.output("text")) == ("succeeded", LINES), job.error
    listed = [{"name": "image", "datatype": "BYTES", "shape": [1], "data": {"url": url}}]
    assert (await customer.api.run("ocr", listed)).output("text") == LINES
    raw = await customer.put("in/raw", np.array([1.0, 2.5], "<f4").tobytes())
    for inputs in ({"url": await customer.put("in/x.npy", array.getvalue())}, {"url": raw, "shape": [1, 2]}):
        assert (await customer.api.run("echo", {"x": inputs})).output("y") == [2.0, 5.0]
    item = {"model": "ocr", "inputs": {"image": {"url": url}}}
    refused = {"model": "ocr", "inputs": {"image": {"url": f"s3://{customer.bucket}/out/x"}}}
    batch = (await customer.api.http.post("/v1/batches", json=[item, refused])).json()
    assert (batch["accepted"], batch["errors"][0]["errors"][0]["pointer"]) == (1, "/inputs/image/url")


async def refuse(customer: Customer, url: str) -> tuple[str, str]:
    """Return the field and the reason of a refused submit."""
    return await customer.refuse({"image": {"url": url}})


async def test_a_submit_of_anything_else_is_refused(customer: Customer) -> None:
    other = await customer.put("out/scan.png", IMAGE)
    pointer, detail = await refuse(customer, other)
    assert pointer == "/inputs/image/url"
    assert "an operator can allow it with `python -m services.gateway.commands.locations allow`" in detail
    assert "no such object" in (await refuse(customer, f"s3://{customer.bucket}/in/missing"))[1]
    assert "`..`" in (await refuse(customer, f"s3://{customer.bucket}/in/../out/scan.png"))[1]
    assert (await customer.run_command("allow", customer.name, f"s3://{customer.own}/"))[0] == 0
    assert "Charonia's own store" in (await refuse(customer, f"s3://{customer.own}/some/prefix/x"))[1]
    assert "no such object" in (await refuse(customer, f"s3://{customer.own}/x"))[1]


async def test_a_job_is_refused_once_its_location_is_revoked_or_its_object_changed(customer: Customer) -> None:
    url = await customer.put("in/scan.png", b"no image")
    failed = await customer.api.run("ocr", {"image": {"url": url}})
    assert failed.error is not None
    assert failed.error.code == "invalid_input"
    await customer.put("in/scan.png", b"changed")
    changed = await customer.api.wait(await retry(customer, failed.id))
    assert changed.error is not None
    assert (changed.error.code, f"{url} has 7 bytes, not 8" in changed.error.message) == ("input_missing", True)
    revoked = await customer.run_command("revoke", customer.name, f"s3://{customer.bucket}/in/")
    assert revoked == (0, f"{customer.name}: s3://{customer.bucket}/in/ is no longer allowed")
    again = await customer.api.wait(await retry(customer, failed.id))
    assert again.error is not None
    assert (again.error.code, again.error.retryable) == ("input_location_refused", False)
    assert "not allowed" in (await refuse(customer, url))[1]


async def retry(customer: Customer, job: str) -> str:
    assert (await customer.api.http.post(f"/v1/jobs/{job}/retry")).status_code == 202
    return job


async def test_the_command_shows_what_is_allowed(customer: Customer) -> None:
    place = f"s3://{customer.bucket}"
    assert await customer.run_command("allow", customer.name, f"{place}/out/", "--write") == (
        0,
        f"{customer.name}: {place}/out/ (write)",
    )
    listed = f"{customer.name}: {place}/in/ (read)\n{customer.name}: {place}/out/ (write)"
    assert await customer.run_command("list", customer.name) == (0, listed)
    code, text = await customer.run_command("revoke", customer.name, f"{place}/other/")
    assert (code, "may not use" in text) == (1, True)
    code, text = await customer.run_command("allow", customer.name, f"{place}/in")
    assert (code, "it must end with /" in text) == (2, True)
