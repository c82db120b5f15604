"""The results of a batch, a line for each item."""

import msgspec

from tests.support.api.api_client import Api, Job
from tests.support.api.api_shapes import FieldError, Strict
from tests.support.api.batches import LINES


class Problem(Strict, frozen=True):
    type: str
    detail: str
    errors: list[FieldError]


class Result(Strict, frozen=True):
    index: int
    custom_id: str | None
    job: Job | None
    error: Problem | None


def parse_lines(content: bytes) -> list[Result]:
    assert content.endswith(b"\n") or not content
    return [msgspec.json.decode(line, type=Result) for line in content.splitlines()]


async def read_results(api: Api, batch_id: str, **query: str | int) -> list[Result]:
    """Return the results. Of the name of a parameter, an underscore at the end is left out."""
    query = {name.rstrip("_"): value for name, value in query.items()}
    response = await api.http.get(f"/v1/batches/{batch_id}/results", params=query, timeout=60)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].split(";")[0] == LINES["content-type"]
    return parse_lines(response.content)
