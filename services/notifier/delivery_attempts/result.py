"""The result of one delivery attempt."""

from enum import StrEnum

import msgspec


class AttemptError(StrEnum):
    """Why an attempt failed. The names are part of the API."""

    HTTP_STATUS = "http_status"  # a status other than 2xx
    TIMEOUT = "timeout"
    DNS_FAILED = "dns_failed"
    ADDRESS_REFUSED = "address_refused"
    INVALID_URL = "invalid_url"
    CONNECT_TIMEOUT = "connect_timeout"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_FAILED = "connect_failed"  # no route, or another network error
    CONNECTION_RESET = "connection_reset"
    TLS_EXPIRED = "tls_expired"
    TLS_HOSTNAME = "tls_hostname"
    TLS_UNTRUSTED = "tls_untrusted"
    TLS_PROTOCOL = "tls_protocol"
    BAD_RESPONSE = "bad_response"  # not HTTP, or headers over the limits
    RESPONSE_TOO_LARGE = "response_too_large"
    PROXY_FAILED = "proxy_failed"  # the egress proxy, not the receiver
    SECRET_UNREADABLE = "secret_unreadable"  # noqa: S105 -- encrypted with a key that is not configured
    LOCAL_FAULT = "local_fault"  # this machine ran out of a resource


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is None for success. `internal` marks an error on our side, not the receiver's."""

    status_code: int | None = None
    error: AttemptError | None = None
    internal: bool = False
    retry_after: str | None = None  # the raw header
    response: bytes = b""  # its first bytes
    seconds: float = 0.0
