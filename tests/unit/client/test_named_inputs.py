"""An input may have any name, and a submit any field."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

import httpx
import pytest
from charonia import AsyncCharonia, Charonia
from msgspec import json, structs

from tests.support.api.client_jobs import make_succeeded
from tests.support.api.fake_batches import MODEL, X

PARAMETERS = ["inputs", "idempotency_key", "metadata", "options", "priority", "webhook"]
NAMES = ["model", "self", "timeout", *PARAMETERS]
READING = structs.replace(MODEL, inputs=[structs.replace(X, name=name) for name in NAMES])


def submit(client: Charonia, *arguments: Any, **options: Any) -> None:
    client.submit("double", *arguments, **options)


def run(client: Charonia, *arguments: Any, **options: Any) -> None:
    client.run("double", *arguments, **options)


def stream(client: Charonia, *arguments: Any, **options: Any) -> None:
    list(client.stream("double", *arguments, **options))


def send(call: Callable[..., None], *arguments: Any, **options: Any) -> Mapping[str, Any]:
    """Return the body that a call submits."""
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            bodies.append(json.decode(request.read()))
        is_model = request.url.path.startswith("/v1/models/")
        is_stream = "text/event-stream" in request.headers["accept"]
        found = READING if is_model else make_succeeded([])
        return httpx.Response(204 if is_stream else 200, content=b"" if is_stream else json.encode(found))

    with Charonia("http://gateway", "k", http=httpx.Client(transport=httpx.MockTransport(answer))) as client:
        call(client, *arguments, **options)
    (body,) = bodies
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize("call", [submit, run, stream])
def test_an_input_in_a_dictionary_may_have_the_name_of_a_parameter(call: Callable[..., None]) -> None:
    for body in (
        send(call, dict.fromkeys(NAMES, 1.0), priority="high"),
        send(call, inputs=dict.fromkeys(NAMES, 1.0), priority="high"),
    ):
        assert [each["name"] for each in body["inputs"]] == NAMES
        assert (body["model"], body["priority"]) == ("double", "high")


def test_options_pass_on_fields_of_a_newer_gateway() -> None:
    body = send(submit, dict.fromkeys(NAMES, 1.0), options={"expires_in": 5, "colour": {"of": "blue"}})
    assert (body["expires_in"], body["colour"]) == (5, {"of": "blue"})


@pytest.mark.parametrize("kind", [Charonia, AsyncCharonia])
@pytest.mark.parametrize(("name", "more"), [("submit", []), ("run", ["timeout"]), ("stream", ["timeout"])])
def test_what_takes_inputs_by_name_gets_no_more_parameters(kind: type[Any], name: str, more: list[str]) -> None:
    found = signature(getattr(kind, name)).parameters.values()
    by_name = [each.name for each in found if each.kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    assert sorted(by_name) == sorted([*PARAMETERS, *more])
    assert [each.kind for each in found][-1] == Parameter.VAR_KEYWORD
