"""The sender and certificates."""

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from services.notifier.outcome import Fault, Outcome
from services.notifier.sender import Sender
from tests.integration.notifier.receiver import LOCAL, OK, SEALER, TIMEOUT, claim, receive, write


class Authority:
    """A certificate authority made for this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Charonia test")])
        self.certificate = self.issue(self.name, self.key.public_key(), days=1, ca=True)
        self.path = folder / "ca.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        days: int,
        ca: bool = False,
        address: str = "127.0.0.1",
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=10))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(names, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority_key, critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def serve(self, *, days: int = 1, address: str = "127.0.0.1") -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
        certificate = self.issue(name, key.public_key(), days=days, address=address)
        path = self.folder / f"{days}-{address}.pem"
        pem = serialization.Encoding.PEM
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        path.write_bytes(key.private_bytes(pem, form, plain) + certificate.public_bytes(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


async def send_tls(authority: Authority, context: ssl.SSLContext | None, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    sender = Sender.open(SEALER, LOCAL, timeout=TIMEOUT, concurrency=10)
    async with receive(write(OK), context) as receiver:
        outcome = await sender.send(claim(f"https://127.0.0.1:{receiver.port}/"))
    await sender.close()
    return outcome


async def test_a_good_certificate(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = await send_tls(authority, authority.serve(), monkeypatch)
    assert (outcome.fault, outcome.status_code) == (None, 200)


async def test_certificates_that_are_no_good(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    expired = await send_tls(authority, authority.serve(days=-1), monkeypatch)
    assert expired.fault == Fault.TLS_EXPIRED
    wrong = await send_tls(authority, authority.serve(address="127.0.0.2"), monkeypatch)
    assert wrong.fault == Fault.TLS_HOSTNAME


async def test_an_unknown_authority(authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    outcome = await send_tls(Authority(tmp_path), authority.serve(), monkeypatch)
    assert outcome.fault == Fault.TLS_UNTRUSTED


async def test_a_server_without_tls(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    sender = Sender.open(SEALER, LOCAL, timeout=TIMEOUT, concurrency=10)
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    outcome = await sender.send(claim(f"https://127.0.0.1:{port}/"))
    assert outcome.fault == Fault.TLS_PROTOCOL
    server.close()
    await sender.close()
