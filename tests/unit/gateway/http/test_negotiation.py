"""Which types of bodies are taken, and which are liked."""

import pytest

from services.gateway.batches.items import LINES
from services.gateway.http.negotiation import check_json, prefers
from services.gateway.http.problems import Problem

STREAM = "text/event-stream"


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/problem+json"]
)
def test_json_is_taken_by_each_of_its_names(kind: str) -> None:
    assert check_json({"content-type": kind}) == kind.partition(";")[0].lower()


def test_a_body_without_a_type_of_its_own_is_taken_for_json() -> None:
    assert check_json({}) == "application/json"
    assert check_json({"content-type": "application/x-www-form-urlencoded"}) == "application/json"
    assert check_json({"content-encoding": "identity"}) == "application/json"


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data", "json", LINES[0]])
def test_any_other_type_is_refused(kind: str) -> None:
    with pytest.raises(Problem, match=f"'{kind}'; expected application/json") as caught:
        check_json({"content-type": kind})
    assert caught.value.status == 415


def test_lines_are_taken_where_they_are_known() -> None:
    assert check_json({"content-type": f"{LINES[1]};charset=utf-8"}, LINES) == LINES[1]


def test_an_encoded_body_is_refused() -> None:
    with pytest.raises(Problem, match="'gzip'") as caught:
        check_json({"content-encoding": " GZIP"})
    assert caught.value.status == 415


@pytest.mark.parametrize(
    ("accepted", "liked"),
    [
        ("", False),
        ("*/*", False),
        ("text/*, application/*", False),
        ("text/*", True),
        ("text/*, */*;q=0.9", True),
        ("text/*;q=0.9, */*", False),
        (f"{STREAM};q=0, text/*", False),
        (f"application/json;q=0.4, {STREAM};q=0.5", True),
        (f"application/json;q=0.5, {STREAM};q=0.4", False),
        (f"application/json;q=0.5, {STREAM};q=0.5", True),
        (f"application/json;q=0, {STREAM};q=0", False),
        (f"{STREAM};q=0.5, */*", False),
        (f"{STREAM};q=0.5, */*;q=0.1", True),
        (f"{STREAM};q=2, {STREAM};q=nan", False),
        (f"{STREAM}, {STREAM};q=x", True),
        ("image/png", False),
        ("application/json", False),
        (STREAM, True),
        ("Text/Event-Stream", True),
        (f"application/json, {STREAM}", True),
        (f"{STREAM}; charset=utf-8;q=0.5", True),
        (f"{STREAM};q=0", False),
        (f"{STREAM} ; Q=0.000, */*", False),
        (f"x{STREAM}", False),
    ],
)
def test_a_stream_is_sent_to_whoever_likes_it_as_well_as_a_list_and_names_it(accepted: str, liked: bool) -> None:
    assert prefers(accepted, STREAM) is liked
