"""The names of errors of an attempt."""

from common.http_client.errors import RequestError
from services.notifier.delivery_attempts.result import AttemptError


def test_every_error_of_a_request_is_one_of_an_attempt() -> None:
    assert [AttemptError(error) for error in RequestError] == [*RequestError]
