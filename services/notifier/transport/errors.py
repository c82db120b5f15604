"""Names the errors of a request to a receiver."""

import errno
import socket
import ssl
from http import HTTPStatus

import aiohttp
import httpx

from common.errors import AddressRefused
from services.notifier.attempt_result import AttemptError
from services.notifier.transport.client import ForbiddenConnection
from services.notifier.transport.limits import ResponseMalformed, ResponseTooLarge

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
# A proxy's status if it cannot reach the receiver. Any other status is between us and the proxy.
RECEIVER_UNREACHABLE = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)

# The first match counts. None of these is internal.
ERRORS_BY_TYPE: tuple[tuple[tuple[type[BaseException], ...], AttemptError], ...] = (
    ((aiohttp.ClientSSLError, ssl.SSLError), AttemptError.TLS_PROTOCOL),
    ((aiohttp.ConnectionTimeoutError,), AttemptError.CONNECT_TIMEOUT),
    ((TimeoutError,), AttemptError.TIMEOUT),
    ((ResponseTooLarge,), AttemptError.RESPONSE_TOO_LARGE),
    ((aiohttp.ClientResponseError, ResponseMalformed), AttemptError.BAD_RESPONSE),
    ((aiohttp.InvalidURL, httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError), AttemptError.INVALID_URL),
)


def classify(error: BaseException) -> tuple[AttemptError, bool]:
    """Return the error's name, and whether it is internal: on our side, not the receiver's."""
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case AddressRefused() | aiohttp.ClientConnectorError(os_error=ForbiddenConnection()):
            return AttemptError.ADDRESS_REFUSED, False
        case aiohttp.ClientProxyConnectionError():
            return AttemptError.PROXY_FAILED, True
        case aiohttp.ClientHttpProxyError():
            internal = cause.status not in RECEIVER_UNREACHABLE
            return (AttemptError.PROXY_FAILED if internal else AttemptError.CONNECT_FAILED), internal
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
            return next(names, AttemptError.CONNECTION_RESET), False


def classify_lookup(error: OSError) -> tuple[AttemptError, bool]:
    """No answer is an internal error: our name servers are unreachable."""
    if error.errno in OUT_OF_RESOURCES:
        return AttemptError.LOCAL_FAULT, True
    return AttemptError.DNS_FAILED, error.errno == socket.EAI_AGAIN


def classify_certificate(error: Exception) -> AttemptError:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    if code in EXPIRED_CODES:
        return AttemptError.TLS_EXPIRED
    return AttemptError.TLS_HOSTNAME if code in HOSTNAME_CODES else AttemptError.TLS_UNTRUSTED


def classify_socket(error: OSError) -> tuple[AttemptError, bool]:
    if error.errno in OUT_OF_RESOURCES:
        return AttemptError.LOCAL_FAULT, True
    if error.errno in RESET_ERRNOS or isinstance(
        error, ConnectionResetError
    ):  # without errno: closed during the TLS handshake
        return AttemptError.CONNECTION_RESET, False
    if error.errno == errno.ECONNREFUSED:
        return AttemptError.CONNECT_REFUSED, False
    return (AttemptError.CONNECT_TIMEOUT if error.errno == errno.ETIMEDOUT else AttemptError.CONNECT_FAILED), False
