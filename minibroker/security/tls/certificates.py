"""Certificates for tests: an authority of one's own, and what it has signed for a broker and for a client.

`minibroker certificates DIR` writes them, as PEM for Python and librdkafka, and as PKCS12 for Java.
"""

import ipaddress
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.security.missing_extra import missing_extra

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

PASSWORD: Final = "minibroker"  # noqa: S105 - of key stores whose keys lie beside them in the clear
"""Of the PKCS12 files, unless another one is given: Java wants some password."""

_ALWAYS: Final = ("localhost", "127.0.0.1", "::1")
_HOST: Final = re.compile(r"(?:\*\.)?\w(?:[\w.-]*\w)?", re.ASCII)
_LIFETIME: Final = timedelta(days=3650)
_SKEW: Final = timedelta(days=1)
_SECRET: Final = 0o600
_PUBLIC: Final = 0o644


class Certificates(NamedTuple):
    """The files of a directory of certificates, by what they are for.

    Attributes:
        ca: what clients trust, and what the broker trusts in clients' certificates (PEM).
        server_keystore: the broker's key and certificates, for `ssl.keystore.location` (PEM, or PKCS12 for Java).
        client_certificate: with `client_key` what a client shows that is asked for a certificate.
        client_keystore: both in one file, as Kafka's `ssl.keystore.type=PEM` wants them.
        truststore_p12: `ca` as PKCS12.
        password: of the PKCS12 files.
    """

    ca: str
    server_certificate: str
    server_key: str
    server_keystore: str
    server_keystore_p12: str
    client_certificate: str
    client_key: str
    client_keystore: str
    client_keystore_p12: str
    truststore_p12: str
    password: str


class _Signed(NamedTuple):
    key: "EllipticCurvePrivateKey"
    certificate: "x509.Certificate"


def write_certificates(
    directory: str, hosts: Iterable[str] = (), *, client: str = "client", password: str = PASSWORD
) -> Certificates:
    """Write an authority, a broker's and a client's certificates into a directory, which is made if need be.

    Args:
        directory: where they are to be.
        hosts: names and addresses of the broker, beside those of the loopback interface.
        client: the common name in the client's certificate; the broker knows it as `User:CN=client`.
        password: of the PKCS12 files; at least six characters, as Java wants it.

    FileExistsError if there are some already: clients may trust these. ValueError for a host that none can have.
    """
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise missing_extra("Making certificates", "cryptography") from None
    if len(password) < 6:  # noqa: PLR2004 - what Java's keytool wants
        raise ValueError("the password of key stores has at least six characters")
    paths = paths_of(directory, password)
    names = [_general_name(each) for each in dict.fromkeys((*_ALWAYS, *hosts))]
    if os.path.exists(paths.ca):
        raise FileExistsError(17, "there are certificates already, which clients may trust", paths.ca)
    os.makedirs(directory, exist_ok=True)
    authority = _sign("minibroker CA", None, x509.BasicConstraints(ca=True, path_length=0), ())
    no_authority = x509.BasicConstraints(ca=False, path_length=None)
    server = _sign("localhost", authority, no_authority, names)
    of_client = _sign(client, authority, no_authority, ())
    _write(paths.ca, _pem(authority), _PUBLIC)
    _write_pair(server, authority, (paths.server_certificate, paths.server_key, paths.server_keystore))
    _write_pair(of_client, authority, (paths.client_certificate, paths.client_key, paths.client_keystore))
    _write(paths.server_keystore_p12, _pkcs12("server", server, authority, password), _SECRET)
    _write(paths.client_keystore_p12, _pkcs12("client", of_client, authority, password), _SECRET)
    _write(paths.truststore_p12, _truststore(authority, password), _PUBLIC)
    return paths


def paths_of(directory: str, password: str = PASSWORD) -> Certificates:
    """The paths of the files that `write_certificates` has written there."""
    files = (
        "ca.pem",
        *(f"server{end}" for end in (".pem", ".key", ".keystore.pem", ".keystore.p12")),
        *(f"client{end}" for end in (".pem", ".key", ".keystore.pem", ".keystore.p12")),
        "truststore.p12",
    )
    return Certificates._make([*(os.path.join(directory, name) for name in files), password])


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509  # noqa: PLC0415 - as above

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


def _sign(
    name: str, authority: _Signed | None, constraints: "x509.BasicConstraints", hosts: "Iterable[x509.GeneralName]"
) -> _Signed:
    """A new key, and a certificate for it; without an authority it signs itself."""
    from cryptography import x509  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415 - as above

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = key if authority is None else authority.key
    now = datetime.now(UTC)
    is_authority = constraints.ca
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
    return _Signed(key, builder.sign(signer, hashes.SHA256()))


def _pem(signed: _Signed) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - as above

    return signed.certificate.public_bytes(Encoding.PEM)


def _write_pair(signed: _Signed, authority: _Signed, paths: tuple[str, str, str]) -> None:
    """The certificate, its key, and a file with the key and the chain."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415 - as above

    certificate_path, key_path, keystore_path = paths
    key = signed.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = _pem(signed) + _pem(authority)
    _write(certificate_path, chain, _PUBLIC)
    _write(key_path, key, _SECRET)
    _write(keystore_path, key + chain, _SECRET)


def _pkcs12(name: str, signed: _Signed, authority: _Signed, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12  # noqa: PLC0415 - as above

    encryption = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(
        name.encode(), signed.key, signed.certificate, [authority.certificate], encryption
    )


def _truststore(authority: _Signed, password: str) -> bytes:
    """A store that Java takes for one of trusted certificates."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12  # noqa: PLC0415 - as above

    trusted = [pkcs12.PKCS12Certificate(authority.certificate, b"ca")]
    return pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(password.encode()))


def _write(path: str, content: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
