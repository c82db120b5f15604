"""Names for what goes wrong on the way to a receiver."""

import errno
import socket
import ssl
from http import HTTPStatus

import aiohttp
import httpx

from common.errors import AddressRefused
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


def name_fault(error: BaseException) -> tuple[Fault, bool]:
    """The fault, and whether it is ours rather than the receiver's."""
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case AddressRefused() | aiohttp.ClientConnectorError(os_error=ForbiddenConnection()):
            return Fault.ADDRESS_REFUSED, False
        case aiohttp.ClientProxyConnectionError():
            return Fault.PROXY_FAILED, True
        case aiohttp.ClientHttpProxyError():
            # What a proxy says when the receiver can't be reached; anything else is between us and the proxy.
            reached = cause.status not in (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
            return (Fault.PROXY_FAILED if reached else Fault.CONNECT_FAILED), reached
        case aiohttp.ClientConnectorDNSError():
            return Fault.DNS_FAILED, is_temporary(cause.os_error)
        case aiohttp.ClientConnectorCertificateError():
            return name_certificate_fault(cause.certificate_error), False
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return Fault.TLS_PROTOCOL, False
        case aiohttp.ConnectionTimeoutError():
            return Fault.CONNECT_TIMEOUT, False
        case TimeoutError():
            return Fault.TIMEOUT, False
        case aiohttp.ClientConnectorError():
            return name_socket_fault(cause.os_error)
        case aiohttp.ClientResponseError():
            return Fault.BAD_RESPONSE, False
        case aiohttp.InvalidURL() | httpx.InvalidURL() | httpx.UnsupportedProtocol() | ValueError():
            return Fault.INVALID_URL, False
        case _:
            return Fault.CONNECTION_RESET, False


def is_temporary(error: OSError) -> bool:
    """Whether a look-up failed for want of an answer: no name server of ours could be reached."""
    return isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN


def name_certificate_fault(error: Exception) -> Fault:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    if code in EXPIRED:
        return Fault.TLS_EXPIRED
    return Fault.TLS_HOSTNAME if code in WRONG_NAME else Fault.TLS_UNTRUSTED


def name_socket_fault(error: OSError) -> tuple[Fault, bool]:
    if error.errno in EXHAUSTED:
        return Fault.LOCAL_FAULT, True
    if error.errno in RESET:
        return Fault.CONNECTION_RESET, False
    if error.errno == errno.ECONNREFUSED:
        return Fault.CONNECT_REFUSED, False
    return (Fault.CONNECT_TIMEOUT if error.errno == errno.ETIMEDOUT else Fault.CONNECT_FAILED), False
