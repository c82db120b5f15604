"""Names for what goes wrong on the way to a receiver."""

import errno
import socket
import ssl
from http import HTTPStatus

import aiohttp
import httpx

from common.errors import AddressRefused
from services.notifier.bounds import AnswerMalformed, AnswerTooLarge
from services.notifier.network import ForbiddenConnection
from services.notifier.outcome import Fault

# All that a request may raise. httpx's own names are too coarse, and its transport calls a lost connection a
# ConnectTimeout: look at what is underneath.
EXPECTED = (
    AddressRefused,
    httpx.HTTPError,
    httpx.InvalidURL,
    aiohttp.ClientError,
    OSError,
    RuntimeError,  # uvloop's, for a transport that is closed
    ValueError,  # yarl's and aiohttp's, for a URL or header that they do not take
)

# X509_V_ERR_* of OpenSSL
EXPIRED = (9, 10)
WRONG_NAME = (62, 64)
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
RESET = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN)
# What a proxy says when it can't reach the receiver; anything else is between us and the proxy.
UNREACHED = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)

# The first that fits; none of these is ever ours.
OTHERS: tuple[tuple[tuple[type[BaseException], ...], Fault], ...] = (
    ((aiohttp.ClientSSLError, ssl.SSLError), Fault.TLS_PROTOCOL),
    ((aiohttp.ConnectionTimeoutError,), Fault.CONNECT_TIMEOUT),
    ((TimeoutError,), Fault.TIMEOUT),
    ((AnswerTooLarge,), Fault.RESPONSE_TOO_LARGE),
    ((aiohttp.ClientResponseError, AnswerMalformed), Fault.BAD_RESPONSE),
    ((aiohttp.InvalidURL, httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError), Fault.INVALID_URL),
)


def name_fault(error: BaseException) -> tuple[Fault, bool]:
    """The fault, and whether it is ours rather than the receiver's."""
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case AddressRefused() | aiohttp.ClientConnectorError(os_error=ForbiddenConnection()):
            return Fault.ADDRESS_REFUSED, False
        case aiohttp.ClientProxyConnectionError():
            return Fault.PROXY_FAILED, True
        case aiohttp.ClientHttpProxyError():
            reached = cause.status not in UNREACHED
            return (Fault.PROXY_FAILED if reached else Fault.CONNECT_FAILED), reached
        case aiohttp.ClientConnectorDNSError():
            return name_lookup_fault(cause.os_error)
        case socket.gaierror():
            return name_lookup_fault(cause)
        case aiohttp.ClientConnectorCertificateError():
            return name_certificate_fault(cause.certificate_error), False
        case aiohttp.ClientConnectorError() if not isinstance(cause, aiohttp.ClientSSLError):
            return name_socket_fault(cause.os_error)
        case _:
            return next((fault for kinds, fault in OTHERS if isinstance(cause, kinds)), Fault.CONNECTION_RESET), False


def name_lookup_fault(error: OSError) -> tuple[Fault, bool]:
    """Ours for want of an answer: no name server of ours could be reached."""
    if error.errno in EXHAUSTED:
        return Fault.LOCAL_FAULT, True
    return Fault.DNS_FAILED, error.errno == socket.EAI_AGAIN


def name_certificate_fault(error: Exception) -> Fault:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    if code in EXPIRED:
        return Fault.TLS_EXPIRED
    return Fault.TLS_HOSTNAME if code in WRONG_NAME else Fault.TLS_UNTRUSTED


def name_socket_fault(error: OSError) -> tuple[Fault, bool]:
    if error.errno in EXHAUSTED:
        return Fault.LOCAL_FAULT, True
    if error.errno in RESET or isinstance(error, ConnectionResetError):  # without a number: TLS was hung up on
        return Fault.CONNECTION_RESET, False
    if error.errno == errno.ECONNREFUSED:
        return Fault.CONNECT_REFUSED, False
    return (Fault.CONNECT_TIMEOUT if error.errno == errno.ETIMEDOUT else Fault.CONNECT_FAILED), False
