"""Creation of keys and certificates with the package cryptography, which is optional and slow to load."""

import ipaddress
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_HOST: Final = re.compile(r"(?:\*\.)?\w(?:[\w.-]*\w)?", re.ASCII)
_LIFETIME: Final = timedelta(days=3650)
_SKEW: Final = timedelta(days=1)


class Signed(NamedTuple):
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def general_name(host: str) -> x509.GeneralName:
    """Return a host in the form used in certificates: an IP address or a DNS name.

    Raises:
        ValueError: The host is neither.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode()
    except UnicodeError:
        name = ""
    if not _HOST.fullmatch(name):
        raise ValueError(f"{host!r} is not a host name")
    return x509.DNSName(name)


def sign(name: str, authority: Signed | None = None, hosts: Iterable[x509.GeneralName] = ()) -> Signed:
    """Create a key and its certificate, signed by the authority.

    Without an authority, the certificate is that of a new authority and is self-signed.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = key if authority is None else authority.key
    now = datetime.now(UTC)
    is_authority = authority is None
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if not is_authority:
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(purposes, critical=False)
    hosts = list(hosts)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return Signed(key, builder.sign(signer, hashes.SHA256()))


def pem(signed: Signed) -> bytes:
    """Return the certificate in PEM."""
    return signed.certificate.public_bytes(Encoding.PEM)


def key_pem(signed: Signed) -> bytes:
    """Return the unencrypted private key in PEM."""
    return signed.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def key_store(name: str, signed: Signed, authority: Signed, password: str) -> bytes:
    """Return a PKCS12 file with the key and its certificates."""
    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(
        name.encode(), signed.key, signed.certificate, [authority.certificate], encryption
    )


def trust_store(authority: Signed, password: str) -> bytes:
    """Return a PKCS12 file that Java accepts as a trust store."""
    trusted = [pkcs12.PKCS12Certificate(authority.certificate, b"ca")]
    return pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(password.encode()))
