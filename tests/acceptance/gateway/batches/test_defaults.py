"""The first line of a batch may give fields for all its jobs. Items may have names of their own."""

import pytest

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import BatchAccepted
from tests.support.api.batch_results import read_results
from tests.support.api.batches import echo, send_batch, submit_batch, wait_for_batch, write_lines
from tests.support.api.model_inputs import tokens
from tests.support.receivers.webhook_receiver import Receiver


async def test_defaults_hold_for_every_job_without_the_field(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    defaults = {"model": "echo", "priority": "low", "webhook": {"url": inbox.url}, "metadata": {"of": "all"}}
    jobs = [
        {"inputs": {"x": [[1]]}, "custom_id": "plain"},
        {"inputs": {"x": [[2]]}, "priority": "high", "webhook": None, "metadata": {"own": 1}},
        {"model": "tokens", "inputs": tokens(["a"])},
        {"inptus": {}},
    ]
    responses = [
        await send_batch(api, write_lines([{"defaults": defaults}, *jobs])),
        await api.http.post("/v1/batches", json=[{"defaults": defaults}, *jobs]),
    ]
    for response in responses:
        batch = read(response, 202, BatchAccepted)
        assert (batch.total, batch.accepted, [error.index for error in batch.errors]) == (4, 3, [3])
        await wait_for_batch(api, batch.id)
        plain, own, other, _ = [each.job for each in await read_results(api, batch.id)]
        assert plain is not None
        assert own is not None
        assert other is not None
        assert (plain.model, plain.priority, plain.metadata) == ("echo", "low", {"of": "all"})
        assert (own.model, own.priority, own.metadata) == ("echo", "high", {"own": 1})
        assert (other.model, other.priority) == ("tokens", "low")
        for job, expected in ((plain, "succeeded"), (own, "none"), (other, "succeeded")):
            assert (await api.wait_for_webhooks(job.id)).webhook_status == expected


@pytest.mark.parametrize(
    ("defaults", "pointer"),
    [
        ({"priority": "urgent"}, "/defaults/priority"),
        ({"inputs": {}}, "/defaults/inputs"),
        ({"custom_id": "a"}, "/defaults/custom_id"),
        (1, "/defaults"),
        ({"metadata": {"a": "x" * 70_000}}, "/defaults"),
    ],
)
async def test_wrong_defaults_refuse_the_batch(api: Api, defaults: object, pointer: str) -> None:
    response = await send_batch(api, write_lines([{"defaults": defaults}, echo(1)]))
    assert (response.status_code, [error["pointer"] for error in response.json()["errors"]]) == (422, [pointer])


async def test_names_are_unique_in_a_batch_and_defaults_come_first(api: Api) -> None:
    items: list[object] = [echo(0, custom_id="a"), echo(1, custom_id="a"), {"defaults": {}}, echo(3, custom_id="")]
    items += [{"custom_id": "b"}, echo(5, custom_id="b"), echo(6, custom_id="c"), echo(7)]
    batch = await submit_batch(api, items)
    assert [(error.index, error.custom_id, error.errors[0].pointer) for error in batch.errors] == [
        (1, "a", "/custom_id"),
        (2, None, "/defaults"),
        (3, None, "/custom_id"),
        (4, "b", "/model"),
        (5, "b", "/custom_id"),
    ]
    assert (await api.http.post("/v1/jobs", json=echo(1, custom_id="a"))).status_code == 422
