"""A certificate authority for tests."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = make_name("Charonia test")
        self._certificate = self._issue(self._name, self._key.public_key(), ca=True)
        self.path = folder / "ca.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def _issue(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        days: int = 1,
        ca: bool = False,
        host: str = "127.0.0.1",
    ) -> x509.Certificate:
        """Issue a certificate for a host name or address, valid from ten days ago for `days` from now."""
        now = datetime.datetime.now(datetime.UTC)
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=10))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([make_general_name(host)]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority_key, critical=False)
            # Python 3.13 requires the key usage.
            .add_extension(certificate_signing_usage() if ca else signature_usage(), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def serve(self, *, days: int = 1, host: str = "127.0.0.1") -> ssl.SSLContext:
        """Return the TLS context of a server of this host."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._issue(make_name("receiver"), key.public_key(), days=days, host=host)
        return self._load(key, certificate, f"{days}-{host}.pem")

    def write_pair(self, name: str) -> tuple[Path, Path]:
        """Write a certificate for 127.0.0.1 and its key; return their files."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._issue(make_name(name), key.public_key())
        files = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        files[0].write_bytes(certificate.public_bytes(pem))
        files[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
        return files

    def serve_itself(self) -> ssl.SSLContext:
        """Return the TLS context of a server with a self-signed certificate."""
        return self._load(self._key, self._certificate, "itself.pem")

    def _load(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, file: str) -> ssl.SSLContext:
        pem = serialization.Encoding.PEM
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        path = self._folder / file
        path.write_bytes(key.private_bytes(pem, form, plain) + certificate.public_bytes(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def make_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def certificate_signing_usage() -> x509.KeyUsage:
    return x509.KeyUsage(False, False, False, False, False, True, True, False, False)


def signature_usage() -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, False, False, False, False)


def make_general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
