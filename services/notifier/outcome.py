"""What an attempt to deliver came to."""

from enum import StrEnum

import msgspec


class Fault(StrEnum):
    """Why an attempt failed; the names are part of the API."""

    HTTP_STATUS = "http_status"  # an answer other than 2xx
    TIMEOUT = "timeout"
    DNS_FAILED = "dns_failed"
    ADDRESS_REFUSED = "address_refused"
    INVALID_URL = "invalid_url"
    CONNECT_TIMEOUT = "connect_timeout"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_FAILED = "connect_failed"  # no route, and what else the network answers
    CONNECTION_RESET = "connection_reset"
    TLS_EXPIRED = "tls_expired"
    TLS_HOSTNAME = "tls_hostname"
    TLS_UNTRUSTED = "tls_untrusted"
    TLS_PROTOCOL = "tls_protocol"
    BAD_RESPONSE = "bad_response"  # not HTTP, or headers beyond any measure
    RESPONSE_TOO_LARGE = "response_too_large"
    PROXY_FAILED = "proxy_failed"  # the egress proxy, not the receiver
    SECRET_UNREADABLE = "secret_unreadable"  # noqa: S105 -- sealed with a key that is not configured
    LOCAL_FAULT = "local_fault"  # this machine ran out of something


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`fault` is None for success; `ours` marks a failure that is no fault of the receiver's."""

    status_code: int | None = None
    fault: Fault | None = None
    ours: bool = False
    retry_after: str | None = None  # the header, as it came
    response: bytes = b""  # its first bytes
    seconds: float = 0.0
