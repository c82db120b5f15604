"""Typical mistakes get an answer that says what is wrong, what is allowed and what to do. `pytest -s` prints them."""

import base64
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.api.api_client import Api
from tests.support.api.mistakes import MISTAKES, PNG, UNKNOWN_JOB, Mistake, encode
from tests.support.api.model_inputs import fault

# Words of the language and the libraries that this API is written in.
LEAKS = re.compile(
    r"python|msgspec|litestar|asyncpg|traceback|exception|errno|codec|\bNone\b|NoneType|`(str|int|float|array|object|bool)\b|"
    r"\b(dict|tuple|struct|enum|datetime|bytes-like|C long|RFC3339 encoded|object \||Expecting|Invalid enum)\b",
    re.IGNORECASE,
)


def show(call: str, status: int | str, text: str) -> None:
    print(f"\n{call} → {status}\n    {text}")


def test_there_are_at_least_sixty() -> None:
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
async def test_mistake_is_answered_with_what_to_do(api: Api, mistake: Mistake) -> None:
    request = api.http.build_request(mistake.method, mistake.path, content=encode(mistake))
    for name, value in {"Content-Type": "application/json", **mistake.headers}.items():
        if value is None:
            del request.headers[name]
        else:
            request.headers[name] = value
    response = await api.http.send(request)
    body = response.json()
    text = body.get("detail") or body["error"]
    show(f"{mistake.method} {mistake.path}", response.status_code, text)
    assert response.status_code == mistake.status, text
    assert [each for each in mistake.texts if each not in text] == []
    everything = [text, *(error["detail"] for error in body.get("errors", []))]
    assert [each for each in everything if LEAKS.search(each)] == []
    assert max(map(len, everything)) <= 1000
    if response.status_code == 405:
        named = {each for each in ("GET", "POST") if each in text.partition("use")[2]}
        assert set(response.headers["allow"].split(", ")) >= named


async def test_outputs_that_do_not_exist_are_explained(api: Api) -> None:
    failed = await api.run("faulty", fault("invalid"))
    queued = await api.submit("echo", {"x": [[1.0]]}, run_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    waits = "the job is queued, so it has no outputs yet; wait for its end with GET /v1/jobs/{id}?wait=60"
    refusals = {
        failed.id: (404, "no_outputs", "the job failed, so it has no outputs; its `error` says why"),
        queued.id: (409, "not_ready", waits),
        UNKNOWN_JOB: (404, "not_found", "job not found; it never existed, was deleted, or belongs to another tenant"),
    }
    for job_id, (status, code, text) in refusals.items():
        response = await api.http.get(f"/v1/jobs/{job_id}/outputs")
        show("GET /v1/jobs/{id}/outputs", response.status_code, response.json()["detail"])
        found = response.json()
        assert (found["status"], found["type"], found["detail"]) == (status, f"urn:charonia:problem:{code}", text)
        assert ("retry-after" in response.headers) == (status == 409)
    await api.http.post(f"/v1/jobs/{queued.id}/cancel")


async def test_data_url_is_taken_as_base64(api: Api) -> None:
    url = f"data:text/plain;base64,{base64.b64encode(b'hello').decode()}"
    job = await api.run("tokens", {"text": [{"base64": url}]})
    assert (job.status, job.output("token")) == ("succeeded", ["hello"])


async def test_base64_in_a_string_is_named_as_the_cause(api: Api) -> None:
    job = await api.run("ocr", {"image": [PNG]})
    assert job.error is not None
    show("a job with an image as a string", job.status, job.error.message)
    assert (job.error.code, '{"base64": "..."}' in job.error.message) == ("invalid_input", True)
