"""The responses that a request continues are read from their jobs."""

import warnings
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.fair_budget import FairBudget
from common.job_states import Status
from services.gateway.http.limits import body_limits, response_limits
from services.gateway.http.problems import Problem
from services.gateway.openai.ids import Prefix, encode
from tests.unit.gateway.samples import ROW

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's parameters
    from services.gateway.jobs.store import FoundJob
    from services.gateway.openai.dependencies import OpenAIServices
    from services.gateway.openai.responses.history import MAX_TURNS, read_history

TEXT = "hello"


class World:
    """Responses in a row, the last of which is `last`."""

    def __init__(self, turns: int, status: Status = Status.SUCCEEDED, room: int = 1_000_000) -> None:
        self.lease = body_limits.BodyLease(FairBudget(room), body_limits.BodyDeadlines())
        self._jobs: dict[UUID, FoundJob] = {}
        self.last = ""
        for number in range(turns):
            body = {"model": "echo", "input": f"question {number}"}
            body |= {"previous_response_id": self.last} if self.last else {}
            record = msgspec.json.encode({"endpoint": "/v1/responses", "body": body})
            row = msgspec.structs.replace(ROW, id=ids.new(), status=status)
            self._jobs[row.id] = FoundJob(
                row, b"[]", "none", None, erased=False, outputs_size=2, request=record, request_size=len(record)
            )
            self.last = encode(Prefix.RESPONSE, row.id)

    async def _find_job(self, job_id: UUID, *_: Any) -> FoundJob | None:
        return self._jobs.get(job_id)

    async def _work(self, _size: int, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    async def _read(self, *_: Any) -> Any:
        return [{"text": [TEXT.encode()]}]

    async def read(self, last: str | None = None) -> list[str]:
        """Return the questions, oldest first."""
        services = SimpleNamespace(
            jobs=SimpleNamespace(store=SimpleNamespace(find_job=self._find_job)),
            submission=SimpleNamespace(workers=SimpleNamespace(work=self._work)),
            answers=SimpleNamespace(read=self._read),
        )
        scope = {body_limits.LEASE: self.lease, response_limits.LEASE: SimpleNamespace(release=lambda: None)}
        caller = SimpleNamespace(scope=scope, user=SimpleNamespace(tenant_id=ROW.tenant_id))
        turns = await read_history(cast(OpenAIServices, services), cast(Any, caller), last or self.last)
        assert {turn.text for turn in turns} == {TEXT}
        return [msgspec.json.decode(turn.body)["input"] for turn in turns]


async def refuse(world: World, last: str | None = None) -> tuple[HTTPStatus, str]:
    with pytest.raises(Problem) as raised:
        await world.read(last)
    return raised.value.status, raised.value.code


async def test_a_conversation_begins_with_its_oldest_response() -> None:
    assert await World(3).read() == ["question 0", "question 1", "question 2"]


async def test_a_conversation_has_an_end() -> None:
    assert len(await World(MAX_TURNS).read()) == MAX_TURNS
    assert await refuse(World(MAX_TURNS + 1)) == (400, "conversation_too_long")


async def test_a_conversation_fits_into_the_memory_of_bodies() -> None:
    world = World(3)
    await world.read()
    assert await refuse(World(3, room=200)) == (413, "body_too_large")


async def test_a_response_without_an_answer_is_not_continued() -> None:
    for status in (Status.QUEUED, Status.PROCESSING, Status.FAILED, Status.CANCELED):
        assert await refuse(World(1, status)) == (400, "previous_response_not_completed")
    assert await refuse(World(1), encode(Prefix.RESPONSE, ids.new())) == (400, "previous_response_not_found")
