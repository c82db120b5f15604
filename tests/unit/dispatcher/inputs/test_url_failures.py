"""What each way to get no content means."""

import pytest

from common.http_client.errors import RequestError
from services.dispatcher.inputs.url_failures import explain_error, explain_headers, explain_status

LIMIT = 100


@pytest.mark.parametrize("error", RequestError)
def test_every_error_of_a_request_has_a_meaning(error: RequestError) -> None:
    failure = explain_error(error)
    assert failure.code == ("input_url_refused" if error is RequestError.ADDRESS_REFUSED else "input_url_failed")
    assert failure.message


def test_only_what_may_pass_is_retried() -> None:
    lasting = {error for error in RequestError if not explain_error(error).retryable}
    assert lasting == {
        RequestError.ADDRESS_REFUSED,
        RequestError.BAD_RESPONSE,
        RequestError.INVALID_URL,
        RequestError.RESPONSE_TOO_LARGE,
        RequestError.TLS_EXPIRED,
        RequestError.TLS_HOSTNAME,
        RequestError.TLS_PROTOCOL,
        RequestError.TLS_UNTRUSTED,
    }
    found = {status: explain_status(status) for status in (200, 201, 206, 400, 404, 408, 410, 425, 429, 500, 503, 599)}
    assert found.pop(200) is None
    assert {status for status, failure in found.items() if failure and failure.retryable} == {
        *(408, 425, 429, 500, 503, 599)
    }


@pytest.mark.parametrize(
    ("headers", "wanted", "code"),
    [
        ({}, None, None),
        ({"content-encoding": "Identity", "content-length": "100"}, None, None),
        ({"content-encoding": "", "transfer-encoding": "Chunked"}, None, None),
        ({"content-length": "101"}, None, "input_url_too_large"),
        ({"content-length": "7" * 30}, None, "input_url_too_large"),
        ({"content-length": "12"}, 12, None),
        ({"content-length": "11"}, 12, "input_url_wrong_size"),
        ({"content-length": "101"}, 12, "input_url_wrong_size"),
        ({"content-encoding": "gzip"}, None, "input_url_encoded"),
        ({"content-encoding": "br, identity"}, None, "input_url_encoded"),
        ({"transfer-encoding": "gzip, chunked"}, None, "input_url_encoded"),
    ],
)
def test_headers_tell_of_a_content_without_use(headers: dict[str, str], wanted: int | None, code: str | None) -> None:
    failure = explain_headers(headers, LIMIT, wanted)
    assert (failure and failure.code) == code
    assert failure is None or not failure.retryable
