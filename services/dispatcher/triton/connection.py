"""The connection to Triton: plain, or with TLS and credentials."""

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import msgspec

from common.errors import SettingsError

Headers: TypeAlias = tuple[tuple[str, str], ...]
HEADER = re.compile(r"([a-z0-9_.-]+)=([\x20-\x7e]+)")
KEY_HEADER = "triton-grpc-protocol-charonia-repository-key"  # with the prefix that Triton expects
RESERVED = re.compile(
    r"grpc-.*|.*-bin|traceparent|tracestate|content-type|te|user-agent"
)  # gRPC's or ours; or not text


class TlsFiles(msgspec.Struct, frozen=True):
    """PEM files. Without `ca`, the authorities of gRPC are trusted. `certificate` and `key` prove who we are."""

    ca: str = ""
    certificate: str = ""
    key: str = ""


class Access(msgspec.Struct, frozen=True):
    """How a server wants to be called: with TLS or plain, with which headers, and with which key to load models."""

    tls: TlsFiles | None = None
    headers: Headers = ()
    repository_key: str = ""

    @property
    def control_headers(self) -> Headers:
        """The headers of calls that are no inferences. Triton may be set up to give models the others."""
        return (*self.headers, (KEY_HEADER, self.repository_key)) if self.repository_key else self.headers


def parse_headers(items: tuple[str, ...]) -> Headers:
    """Return the headers in texts such as `authorization=Bearer …`. Raise SettingsError, which shows no value."""
    found = [HEADER.fullmatch(item) for item in items]
    headers = tuple((match[1], match[2]) for match in found if match)
    if len(headers) < len(items) or any(RESERVED.fullmatch(name) for name, _ in headers):
        raise SettingsError(
            "CHARONIA_TRITON_HEADERS is wrong: expected headers such as authorization=Bearer token, separated by "
            "commas. Names are in lower case, are not gRPC's own, and do not end with -bin."
        )
    return headers


def open_channel(url: str, tls: TlsFiles | None, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
    """Return a channel. Raise SettingsError for files that are no certificates or keys."""
    if tls is None:
        return grpc.aio.insecure_channel(url, options=options)
    return grpc.aio.secure_channel(url, load_credentials(tls), options=options)


def load_credentials(tls: TlsFiles) -> grpc.ChannelCredentials:
    """Read the files. Raise SettingsError if one is missing or wrong; gRPC itself would only fail to connect."""
    context = ssl.create_default_context()
    ca = certificate = key = None
    if tls.ca:
        ca = _read("CA", tls.ca)
        _check("CA", tls.ca, lambda: context.load_verify_locations(tls.ca))
    if bool(tls.certificate) != bool(tls.key):
        raise SettingsError("CHARONIA_TRITON_TLS_CERTIFICATE and CHARONIA_TRITON_TLS_KEY are wrong: set both or none")
    if tls.certificate:
        certificate, key = _read("CERTIFICATE", tls.certificate), _read("KEY", tls.key)
        _check("CERTIFICATE", tls.certificate, lambda: context.load_cert_chain(tls.certificate, tls.key, password=""))
    return grpc.ssl_channel_credentials(ca, key, certificate)


def _read(name: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"CHARONIA_TRITON_TLS_{name} is wrong: cannot read {file}: {error.strerror}") from error


def _check(name: str, file: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (ssl.SSLError, ValueError) as error:
        expected = "certificates in PEM" if name == "CA" else "a certificate in PEM with its key, which has no password"
        raise SettingsError(f"CHARONIA_TRITON_TLS_{name} is wrong: {file}: expected {expected}") from error
