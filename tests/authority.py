"""A certificate authority made for a test."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = name("Charonia test")
        self.certificate = self.issue(self.name, self.key.public_key(), ca=True)
        self.path = folder / "ca.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        days: int = 1,
        ca: bool = False,
        host: str = "127.0.0.1",
    ) -> x509.Certificate:
        """For a host, which may be an address, valid from ten days ago for `days` from now."""
        now = datetime.datetime.now(datetime.UTC)
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=10))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([general_name(host)]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority_key, critical=False)
            .add_extension(sign_certificates() if ca else sign_messages(), critical=True)  # or Python 3.13 trusts none
            .sign(self.key, hashes.SHA256())
        )

    def serve(self, *, days: int = 1, host: str = "127.0.0.1") -> ssl.SSLContext:
        """What a server of that host needs."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.issue(name("receiver"), key.public_key(), days=days, host=host)
        return self.load(key, certificate, f"{days}-{host}.pem")

    def serve_itself(self) -> ssl.SSLContext:
        """A server with a certificate that nobody but itself has signed."""
        return self.load(self.key, self.certificate, "itself.pem")

    def load(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, file: str) -> ssl.SSLContext:
        pem = serialization.Encoding.PEM
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        path = self.folder / file
        path.write_bytes(key.private_bytes(pem, form, plain) + certificate.public_bytes(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def sign_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(False, False, False, False, False, True, True, False, False)


def sign_messages() -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, False, False, False, False)


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
