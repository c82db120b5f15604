"""Names the errors of a request to a server that a client named."""

import errno
import socket
import ssl
from enum import StrEnum
from http import HTTPStatus

import aiohttp
import httpx

from common.errors import AddressRefused
from common.http_client.client import ForbiddenConnection
from common.http_client.limits import ResponseMalformed, ResponseTooLarge


class RequestError(StrEnum):
    """Why there is no response, or not all of it. Of webhooks, the names are part of the API."""

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
    PROXY_FAILED = "proxy_failed"  # the egress proxy, not the server
    LOCAL_FAULT = "local_fault"  # this machine ran out of a resource


# Everything a request may raise. httpx's exceptions are too coarse, and its transport reports a
# lost connection as ConnectTimeout. `classify` therefore reads the cause.
EXPECTED = (
    AddressRefused,
    httpx.HTTPError,
    httpx.InvalidURL,
    aiohttp.ClientError,
    OSError,
    RuntimeError,  # from uvloop, for a closed transport
    ValueError,  # from yarl and aiohttp, for an invalid URL or header
)

# X509_V_ERR_* of OpenSSL
EXPIRED_CODES = (9, 10)
HOSTNAME_CODES = (62, 64)
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
RESET_ERRNOS = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN)
# A proxy's status if it cannot reach the server. Any other status is between us and the proxy.
SERVER_UNREACHABLE = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)

# The first match counts. None of these is internal.
ERRORS_BY_TYPE: tuple[tuple[tuple[type[BaseException], ...], RequestError], ...] = (
    ((aiohttp.ClientSSLError, ssl.SSLError), RequestError.TLS_PROTOCOL),
    ((aiohttp.ConnectionTimeoutError,), RequestError.CONNECT_TIMEOUT),
    ((TimeoutError,), RequestError.TIMEOUT),
    ((ResponseTooLarge,), RequestError.RESPONSE_TOO_LARGE),
    ((aiohttp.ClientResponseError, ResponseMalformed), RequestError.BAD_RESPONSE),
    ((aiohttp.InvalidURL, httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError), RequestError.INVALID_URL),
)


def classify(error: BaseException) -> tuple[RequestError, bool]:
    """Return the error's name, and whether it is internal: on our side, not the server's."""
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case AddressRefused() | aiohttp.ClientConnectorError(os_error=ForbiddenConnection()):
            return RequestError.ADDRESS_REFUSED, False
        case aiohttp.ClientProxyConnectionError():
            return RequestError.PROXY_FAILED, True
        case aiohttp.ClientHttpProxyError():
            internal = cause.status not in SERVER_UNREACHABLE
            return (RequestError.PROXY_FAILED if internal else RequestError.CONNECT_FAILED), internal
        case aiohttp.ClientConnectorDNSError():
            return classify_lookup(cause.os_error)
        case socket.gaierror():
            return classify_lookup(cause)
        case aiohttp.ClientConnectorCertificateError():
            return classify_certificate(cause.certificate_error), False
        case aiohttp.ClientConnectorError() if not isinstance(cause, aiohttp.ClientSSLError):
            return classify_socket(cause.os_error)
        case _:
            names = (name for kinds, name in ERRORS_BY_TYPE if isinstance(cause, kinds))
            return next(names, RequestError.CONNECTION_RESET), False


def classify_lookup(error: OSError) -> tuple[RequestError, bool]:
    """No answer is an internal error: our name servers are unreachable."""
    if error.errno in OUT_OF_RESOURCES:
        return RequestError.LOCAL_FAULT, True
    return RequestError.DNS_FAILED, error.errno == socket.EAI_AGAIN


def classify_certificate(error: Exception) -> RequestError:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    if code in EXPIRED_CODES:
        return RequestError.TLS_EXPIRED
    return RequestError.TLS_HOSTNAME if code in HOSTNAME_CODES else RequestError.TLS_UNTRUSTED


def classify_socket(error: OSError) -> tuple[RequestError, bool]:
    if error.errno in OUT_OF_RESOURCES:
        return RequestError.LOCAL_FAULT, True
    if error.errno in RESET_ERRNOS or isinstance(
        error, ConnectionResetError
    ):  # without errno: closed during the TLS handshake
        return RequestError.CONNECTION_RESET, False
    if error.errno == errno.ECONNREFUSED:
        return RequestError.CONNECT_REFUSED, False
    return (RequestError.CONNECT_TIMEOUT if error.errno == errno.ETIMEDOUT else RequestError.CONNECT_FAILED), False
