"""The mistakes in a subscription's headers, each with its pointer; the rules are common/webhook_headers.py's."""

import pytest

from services.gateway.subscriptions import check_headers, check_patterns


def test_headers_of_the_receivers_own_pass() -> None:
    assert check_headers({"Authorization": "Bearer a b", "X-Api-Key": "~"}) == []


@pytest.mark.parametrize(
    ("name", "pointer"), [("", "/headers/"), ("a b", "/headers/a b"), ("a/~\n", "/headers/a~1~0\n")]
)
def test_what_is_no_name_is_pointed_at(name: str, pointer: str) -> None:
    assert [error.pointer for error in check_headers({name: "v"})] == [pointer]


@pytest.mark.parametrize("name", ["Host", "content-length", "WEBHOOK-ID", "webhook-anything", "Traceparent"])
def test_headers_that_charonia_sets_are_refused_in_any_case(name: str) -> None:
    assert [error.pointer for error in check_headers({name: "v"})] == [f"/headers/{name}"]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: b", "a\nb", "a\x00b"])
def test_values_that_could_break_the_request_are_refused(value: str) -> None:
    assert [error.pointer for error in check_headers({"X-A": value})] == ["/headers/X-A"]


def test_a_header_is_given_once() -> None:
    (error,) = check_headers({"X-A": "1", "X-B": "1", "x-a": "2"})
    assert (error.pointer, "X-A" in error.detail) == ("/headers/x-a", True)


def test_every_wrong_header_is_told() -> None:
    found = check_headers({"Host": "v", "X-A": "fine", "X-B": "\n"})
    assert [error.pointer for error in found] == ["/headers/Host", "/headers/X-B"]


@pytest.mark.parametrize(
    "pattern", ["job.succeeded", "job.*", "*.succeeded", "*.*", "*", "batch.completed", "webhook.*"]
)
def test_a_pattern_matches_some_event(pattern: str) -> None:
    assert check_patterns([pattern]) == []


@pytest.mark.parametrize(
    "pattern", ["", "job.", "Job.*", "job.*.x", "**", "job.suc*", "job succeeded", "job.succeeded\n", "x", "job.nope"]
)
def test_a_pattern_that_matches_no_event_is_refused(pattern: str) -> None:
    (error,) = check_patterns([pattern])
    assert error.pointer == "/events/0"
    assert "job.succeeded" in error.detail
