"""Decides what each way to get no content from a URL means for the job. Pure."""

from collections.abc import Mapping
from http import HTTPStatus

from common.errors import AddressRefused
from common.http_client.errors import RequestError
from common.job_states import Failure

REDIRECTS = (
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.SEE_OTHER,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
)
# Statuses below 500 after which another try makes sense.
PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
REASONS = {
    RequestError.DNS_FAILED: "cannot be looked up",
    RequestError.CONNECT_TIMEOUT: "does not accept the connection in time",
    RequestError.CONNECT_REFUSED: "refuses the connection",
    RequestError.CONNECT_FAILED: "cannot be connected to",
    RequestError.CONNECTION_RESET: "broke the connection before all of the content was there",
    RequestError.TIMEOUT: "does not answer in time",
    RequestError.TLS_EXPIRED: "has a certificate that is not valid now",
    RequestError.TLS_HOSTNAME: "has a certificate for another name",
    RequestError.TLS_UNTRUSTED: "has a certificate that no known authority signed",
    RequestError.TLS_PROTOCOL: "does not agree on TLS",
    RequestError.BAD_RESPONSE: "does not answer with valid HTTP",
    RequestError.INVALID_URL: "has a URL that cannot be used",
    RequestError.RESPONSE_TOO_LARGE: "answers with too long headers",
    RequestError.PROXY_FAILED: "cannot be reached, because the egress proxy does not work",
    RequestError.LOCAL_FAULT: "cannot be reached, because the dispatcher ran out of a resource",
}
LASTING = (
    RequestError.TLS_EXPIRED,
    RequestError.TLS_HOSTNAME,
    RequestError.TLS_UNTRUSTED,
    RequestError.TLS_PROTOCOL,
    RequestError.BAD_RESPONSE,
    RequestError.INVALID_URL,
    RequestError.RESPONSE_TOO_LARGE,
)
ADVICE = "correct the URL, or send the content itself"


class FetchFailed(Exception):
    """There is no content. `failure` says why, but for the input and the host. Spans show `error_type`."""

    def __init__(self, failure: Failure, error_type: str | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.error_type = error_type or failure.code


def explain_error(error: RequestError) -> Failure:
    """Return what an error of a request means."""
    if error is RequestError.ADDRESS_REFUSED:
        text = (
            "is at an address that may not be called; use a URL that is open to the internet, "
            "or let your operator allow its network with CHARONIA_INPUT_NETWORKS"
        )
        return Failure("input_url_refused", text, False)
    if error in LASTING:
        return Failure("input_url_failed", f"{REASONS[error]}; {ADVICE}", False)
    return Failure("input_url_failed", REASONS[error], True)


def refuse(error: AddressRefused, *, redirected: bool) -> Failure:
    """Return what a URL means that may not be called. The error has nothing of it but the host."""
    text = "redirects to a URL that may not be called" if redirected else "has a URL that may not be called"
    return Failure("input_url_refused", f"{text}: {error}", False)


def explain_timeout(seconds: float) -> Failure:
    text = f"did not send all of the content within {seconds:g} s (CHARONIA_FETCH_TIMEOUT, or the job's timeout)"
    return Failure("input_url_timeout", text, True)


def explain_size(limit: int) -> Failure:
    text = (
        f"has more than {limit} bytes, which is the most for it (CHARONIA_MAX_TENSOR_BYTES); send less, or ask your "
        "operator"
    )
    return Failure("input_url_too_large", text, False)


def explain_wrong_size(wanted: int, got: int | None) -> Failure:
    """Return the failure of numbers whose shape needs other bytes. `got`: None for more than wanted."""
    text = f"has {'more' if got is None else f'{got} bytes'}, but the shape needs {wanted} bytes; correct the shape"
    return Failure("input_url_wrong_size", text, False)


def explain_status(status: int) -> Failure | None:
    """Return what a status means that is no redirect. None: the content follows."""
    if status == HTTPStatus.OK:
        return None
    if status >= 500 or status in PASSING:
        return Failure("input_url_failed", f"answered with status {status}", True)
    return Failure("input_url_failed", f"answered with status {status}, not 200; {ADVICE}", False)


def explain_headers(headers: Mapping[str, str], limit: int, wanted: int | None) -> Failure | None:
    """Return why the content with these headers is of no use. `wanted`: the bytes that it must have, if they are known.

    A content that expands would have any size, so it is refused as it is.
    """
    coding = headers.get("content-encoding", "identity").strip().lower()
    transfer = headers.get("transfer-encoding", "chunked").strip().lower()
    if coding not in ("", "identity") or transfer != "chunked":
        shown = (coding if transfer == "chunked" else transfer)[:40]
        text = f"sends the content compressed ({shown}), although it was asked not to; {ADVICE}"
        return Failure("input_url_encoded", text, False)
    length = read_length(headers)
    if length is None:
        return None
    if wanted is not None and length != wanted:
        return explain_wrong_size(wanted, length)
    return explain_size(limit) if length > limit else None


def read_length(headers: Mapping[str, str]) -> int | None:
    """Return the bytes that a server announces."""
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else None
