"""Every method of the synchronous client does what it says, on the real stack."""

import time
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import charonia
import ml_dtypes
import numpy as np
import pytest
from charonia import Charonia, calls
from charonia._sync import planner
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.model_inputs import LINES
from tests.support.api.triton_client import MIRROR_DTYPES
from tests.support.receivers.webhook_receiver import Receiver
from tests.support.stacks.key_command import make_key

IMAGE = ROOT / "deploy" / "local" / "demo.png"
WORDS = ["hello", " brave", " world"]


def test_an_image_becomes_text(client: Charonia) -> None:
    out = client.run("ocr", image=IMAGE)
    assert out["text"] == LINES
    assert out.numpy("boxes").shape == (len(LINES), 4, 2)
    with IMAGE.open("rb") as file:
        assert client.run("ocr", image=file)["text"] == client.run("ocr", image=IMAGE.read_bytes())["text"] == LINES
    assert out.job.status == "succeeded"


def test_arrays_of_every_datatype_come_back_as_they_were(client: Charonia) -> None:
    arrays = {name: make_array(name) for name in MIRROR_DTYPES}
    out = client.run("mirror", arrays)
    for name, sent in arrays.items():
        expected = sent.astype(np.float32) if name == "bf16" else sent
        np.testing.assert_array_equal(out.numpy(name), expected)
        assert out.numpy(name).dtype == expected.dtype


def make_array(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    if name == "bytes":
        return np.array([["größe", b"\xff\x00"], ["", "a"]], dtype=object)
    values = [[0, 1], [1, 0]] if name == "bool" else [[0, 1], [2, 100]]
    if name in ("fp16", "fp32", "fp64"):
        return np.array([[0.1, np.nan], [-np.inf, 2]], MIRROR_DTYPES[name])
    return np.array(values, ml_dtypes.bfloat16 if name == "bf16" else MIRROR_DTYPES[name])


def test_a_job_is_submitted_watched_and_read(client: Charonia) -> None:
    submitted = client.submit("echo", x=[[1, 2.5]], priority="high", metadata={"order": 1}, options={"timeout": 30})
    assert (submitted.status, submitted.model, submitted.priority) == ("queued", "echo", "high")
    assert submitted.result(timeout=30)["y"] == [[2.0, 5.0]]
    job = client.jobs.get(submitted.id)
    assert (job.metadata, job.status, job.error, len(job.trace_id)) == ({"order": 1}, "succeeded", None, 32)
    assert [each.type for each in job.events()] == ["job.queued", "job.started", "job.succeeded"]
    _, started, _ = job.events()
    assert [each.type for each in job.events(after=started.position)] == ["job.succeeded"]
    assert [each.status for each in job.attempts()] == ["succeeded"]
    assert [(each.name, each.shape, each.data) for each in job.inputs()] == [("x", [1, 2], [1.0, 2.5])]
    assert job.deliveries() == []
    assert submitted.id in [each.id for each, _ in zip(client.jobs.list(model="echo"), range(5), strict=False)]


def test_tokens_are_streamed(client: Charonia) -> None:
    parts = list(client.stream("tokens", text="".join(WORDS)))
    assert [(each.text, each["token"], each.index, each.attempt) for each in parts] == [
        (word, [word], index, 1) for index, word in enumerate(WORDS)
    ]
    assert client.run("tokens", text="".join(WORDS))["token"] == WORDS
    (part,) = client.stream("echo", x=[1, 2])  # it is not a streaming model
    assert (part["y"], part.index, part.attempt) == ([[2.0, 4.0]], 0, 1)


def test_the_parts_of_a_repeated_attempt_have_its_number(client: Charonia) -> None:
    retry: charonia.Retry = {"initial_delay": 0, "max_delay": 0}
    inputs = {"mode": "fail_times", "value": 1, "key": uuid.uuid4().hex}
    (part,) = client.stream("faulty", inputs, options={"retry": retry})
    assert (part["result"], part.attempt) == (["ok"], 2)


def test_a_job_is_canceled_retried_and_erased(client: Charonia) -> None:
    job = client.submit("work", ms=60_000)
    job.cancel()
    with pytest.raises(charonia.JobCanceled) as caught:
        job.result(timeout=30)
    assert (caught.value.job.id, caught.value.code) == (job.id, "canceled")
    assert job.cancel().status == "canceled"  # again: no error
    assert job.retry(target_model="work_small").status == "queued"
    job.cancel().wait(timeout=30).erase()
    ended = client.run("echo", x=1).job
    job = client.jobs.get(ended.id)
    job.erase()
    with pytest.raises(charonia.CharoniaError, match=f"the inputs of {job.id} were erased"):
        job.inputs()
    with pytest.raises(charonia.CharoniaError, match="were erased"):
        job.refresh().result()
    with pytest.raises(charonia.Conflict):
        job.cancel()
    assert isinstance(list(job.events())[-1], charonia.ProgressEvent)


def test_a_failure_says_why(client: Charonia) -> None:
    for use in (lambda: client.run("faulty", mode="invalid"), lambda: list(client.stream("faulty", mode="invalid"))):
        with pytest.raises(charonia.JobFailed, match=r"invalid as asked \(invalid_input, attempt 1 of 5\)") as caught:
            use()
        assert (caught.value.code, caught.value.attempts) == ("invalid_input", 1)
    dead = client.dead_letters.replay(ids=[caught.value.job.id], target_model="faulty")
    assert (dead.replayed, dead.remaining) == ([caught.value.job.id], False)
    client.jobs.get(caught.value.job.id).wait(timeout=30)
    assert caught.value.job.id in [each.id for each in client.dead_letters.list(model="faulty", error="invalid_input")]
    with pytest.raises(charonia.JobExpired):
        client.run("work", ms=1, options={"expires_in": 0.001, "run_at": soon(1)})


def soon(seconds: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(seconds=seconds)  # noqa: UP017 -- as for Python 3.10


def test_mistakes_are_reported_before_anything_is_sent(client: Charonia, stack: Stack) -> None:
    with pytest.raises(charonia.InvalidInput) as caught:
        client.submit("work", m=1)
    assert [str(each) for each in caught.value.errors] == [
        "/inputs/m: the model has no input 'm'; did you mean 'ms'?",
        "/inputs: input 'ms' (INT32 [-1, 1]) is missing",
    ]
    with pytest.raises(charonia.NotFound, match="did you mean 'echo'") as missing:
        client.submit("ech", x=1)
    assert missing.value.code == "model_not_found"
    with pytest.raises(charonia.InvalidRequest) as refused:
        client.submit("echo", x=1, priority="hihg")  # type: ignore[arg-type]
    assert [each.pointer for each in refused.value.errors] == ["/priority"]
    with Charonia(stack.url, DEVELOPMENT_KEY, max_body=1000) as small:
        with pytest.raises(charonia.InvalidInput, match="the request is"):
            small.submit("ocr", image=bytes(1000))
        with pytest.raises(charonia.InvalidInput, match="can be sent in a request"):
            small.submit("ocr", image=IMAGE)


def test_deadlines_are_kept(client: Charonia, stack: Stack) -> None:
    job = client.submit("work", ms=5000)
    with pytest.raises(charonia.DeadlineExceeded, match=f"{job.id} is .* after 0.5 s; it goes on"):
        job.wait(timeout=0.5)
    job.cancel()
    unreachable = Charonia("http://127.0.0.1:9", DEVELOPMENT_KEY, timeout=0.5)
    with unreachable, pytest.raises(charonia.ConnectionFailed, match="Check that the gateway runs"):
        unreachable.models.get("echo")


def test_many_items_are_mapped(client: Charonia) -> None:
    items = [{"mode": "ok"}, {"mode": "invalid"}, "ok", 7, {"nope": 1}, Path("/nowhere"), *["ok"] * 30]
    found = sorted(client.map("faulty", items, concurrency=8), key=lambda each: each.index)
    assert [each.item for each in found] == items
    errors = [type(each.error) for each in found]
    assert errors[:6] == [
        type(None),
        charonia.JobFailed,
        type(None),
        charonia.InvalidInput,
        charonia.InvalidInput,
        charonia.InvalidInput,
    ]
    assert errors[6:] == [type(None)] * 30
    assert found[0]["result"] == ["ok"]
    with pytest.raises(charonia.JobFailed):
        found[1]["result"]
    with pytest.raises(charonia.InvalidRequest, match="/defaults/priority"):
        list(client.map("faulty", items, priority="hihg"))  # type: ignore[arg-type]


def test_an_endless_source_is_read_only_as_far_as_needed(client: Charonia) -> None:
    taken = 0

    def source() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    for done, _ in zip(client.map("echo", source(), concurrency=16), range(50), strict=False):
        assert done["y"] == [[2.0 * done.item]]
    assert taken <= 50 + 3 * 16


def test_an_item_that_is_too_large_for_a_batch_is_in_the_next_one(
    client: Charonia, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "CHUNK_BYTES", 200)
    found = sorted(client.map("echo", range(20)), key=lambda each: each.index)
    assert [(each.index, each["y"]) for each in found] == [(number, [[2.0 * number]]) for number in range(20)]


def test_a_map_ends_if_no_item_does(client: Charonia) -> None:
    try:
        with pytest.raises(charonia.DeadlineExceeded, match="the next result took over 3 s"):
            list(client.map("work", [60_000], timeout=3))
    finally:
        for job in client.jobs.list(model="work"):
            if not job.has_ended:
                client.jobs.get(job.id).cancel()


def test_the_time_that_the_caller_takes_is_no_deadline_of_a_map(
    client: Charonia, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    monkeypatch.setattr(calls, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed))
    count = 0
    for done in client.map("echo", range(40), concurrency=8):
        passed += 10_000.0
        count += done.error is None
    assert count == 40


def test_models_tell_their_signature(client: Charonia) -> None:
    (image,) = client.models.get("ocr").inputs
    assert (image.name, image.datatype, image.shape) == ("image", "BYTES", [1])
    assert {"echo", "ocr", "tokens"} <= {each.name for each in client.models.list() if each.ready}
    assert client.models.get("tokens").streaming


def test_a_webhook_is_created_tested_verified_and_deleted(client: Charonia, receiver: Receiver) -> None:
    signings: tuple[Literal["hmac", "ed25519"], ...] = ("hmac", "ed25519")
    for signing in signings:
        inbox = receiver.inbox()  # the last delivery of the first round may come during the second
        webhook = client.webhooks.create(inbox.url, events=["job.*"], models=["echo"], signing=signing)
        secret = webhook.secret or webhook.public_key
        assert secret is not None
        tried = client.webhooks.test(webhook.id)
        request = inbox.deliveries[-1].request
        event = charonia.verify(request.body, request.headers, secret)
        assert isinstance(event, charonia.WebhookEvent)
        assert (tried.error, event.id, event.type) == (None, request.headers["webhook-id"], "webhook.test")
        assert client.webhooks.update(webhook.id, description="mine").description == "mine"
        assert webhook.id in [each.id for each in client.webhooks.list()]
        rotated = client.webhooks.rotate(webhook.id, grace_period=60)
        assert (rotated.secret or rotated.public_key) != secret
        assert client.webhooks.health(webhook.id).last_60_minutes.succeeded == 1
        assert client.webhooks.disable(webhook.id).disabled_reason == "manual"
        assert client.webhooks.enable(webhook.id).status == "enabled"
        recovery = client.webhooks.recover(webhook.id, since=soon(-60))
        assert client.webhooks.get_recovery(webhook.id, recovery.id).webhook_id == webhook.id
        (delivery,) = client.webhooks.deliveries(webhook.id)
        assert client.deliveries.get(delivery.id).event_type == "webhook.test"
        assert client.deliveries.get_body(delivery.id) == request.body
        assert client.deliveries.redeliver(delivery.id).id == delivery.id
        client.webhooks.delete(webhook.id)
        with pytest.raises(charonia.NotFound):
            client.webhooks.get(webhook.id)


async def test_the_webhook_of_a_job_is_verified_with_the_tenants_secret(
    client: Charonia, own_receiver: Receiver
) -> None:
    inbox = own_receiver.inbox()
    job = client.submit("echo", x=3, webhook={"url": inbox.url, "events": ["job.succeeded"]})
    (delivery,) = await inbox.wait()
    event = charonia.verify(delivery.request.body, delivery.request.headers, client.webhooks.get_secret().secret)
    assert isinstance(event, charonia.JobEvent)
    assert (event.data.id, charonia.Outputs(event.data.outputs or [])["y"]) == (job.id, [[6.0]])


async def test_a_key_that_may_only_submit_can_submit(stack: Stack) -> None:
    key = await make_key(stack, f"submitter-{uuid.uuid4().hex[:8]}", "--scope", "submit")
    with Charonia(stack.url, key) as submitter:
        job = submitter.submit("echo", x=np.ones((1, 2)))
        with pytest.raises(charonia.Forbidden, match="Use a key that has the scope"):
            job.refresh()
    with Charonia(stack.url, "ch_wrong") as unknown, pytest.raises(charonia.Unauthorized, match="CHARONIA_KEY"):
        unknown.submit("echo", x=1)


def test_the_callers_trace_goes_along(client: Charonia) -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("call") as span:
        trace_id = f"{span.get_span_context().trace_id:032x}"
        assert client.submit("echo", x=1).trace_id == trace_id
        with pytest.raises(charonia.NotFound) as caught:
            client.jobs.get("job_01m7ysshxnfbevq05b7h55g94z")
    assert caught.value.trace_id == trace_id
    assert not trace.get_current_span().get_span_context().is_valid


def test_events_end_in_time_though_nothing_comes(client: Charonia) -> None:
    job = client.submit("work", ms=60_000)
    try:
        began_at = time.monotonic()
        with pytest.raises(charonia.DeadlineExceeded):
            list(job.events(timeout=1))
        assert time.monotonic() - began_at < 15
    finally:
        job.cancel()
