"""Certificates for tests: a certificate authority, and the certificates it issues to a broker and a client.

`minibroker certificates DIR` writes them in PEM for Python and librdkafka, and in PKCS12 for Java.
"""

import os
from collections.abc import Iterable
from typing import Final, NamedTuple

from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.installation_hints import missing_extra

with lazy:
    from minibroker.security.tls import signing

PASSWORD: Final = "minibroker"  # noqa: S105 - the same keys are also stored unencrypted
"""The default password of the PKCS12 files. Java requires a password."""

_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_PRIVATE_MODE: Final = 0o600
_PUBLIC_MODE: Final = 0o644


class Certificates(NamedTuple):
    """The files in a directory of certificates.

    Attributes:
        ca: The authority trusted by clients, and by the broker for client certificates (PEM).
        server_keystore: The broker's key and certificates, for `ssl.keystore.location` (PEM; `server_keystore_p12`
            is PKCS12 for Java).
        client_certificate: The certificate of a client that must present one. Its key is `client_key`.
        client_keystore: The client's certificate and key in one file, as required by Kafka's
            `ssl.keystore.type=PEM`.
        truststore_p12: `ca` in PKCS12.
        password: The password of the PKCS12 files.
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


def write_certificates(
    directory: str, hosts: Iterable[str] = (), *, client: str = "client", password: str = PASSWORD
) -> Certificates:
    """Create an authority and the certificates of a broker and a client. The directory is created if missing.

    Args:
        directory: The directory to write to.
        hosts: Additional names and addresses of the broker; those of the loopback interface are always included.
        client: The common name in the client's certificate. The client's principal is then `User:CN=client`.
        password: The password of the PKCS12 files. Java requires at least six characters.

    Raises:
        FileExistsError: The directory already has certificates, which clients might trust.
        NotADirectoryError: It is a file.
        ValueError: A host is invalid, or the password is too short.
    """
    try:
        sign = signing.sign
    except ImportError:
        raise missing_extra("Making certificates", "cryptography") from None
    if len(password) < 6:  # noqa: PLR2004 - required by Java's keytool
        raise ValueError("the password of key stores has at least six characters")
    paths = paths_of(directory, password)
    names = [signing.general_name(host) for host in dict.fromkeys((*_LOOPBACK_HOSTS, *hosts))]
    if os.path.exists(paths.ca):
        raise FileExistsError(17, "there are certificates already, which clients may trust", paths.ca)
    if os.path.isfile(directory):
        raise NotADirectoryError(20, "Not a directory", directory)
    os.makedirs(directory, exist_ok=True)
    authority = sign("minibroker CA")
    server = sign("localhost", authority, names)
    client_signed = sign(client, authority)
    _write(paths.ca, signing.pem(authority), _PUBLIC_MODE)
    for signed, certificate_path, key_path, key_store_path in (
        (server, paths.server_certificate, paths.server_key, paths.server_keystore),
        (client_signed, paths.client_certificate, paths.client_key, paths.client_keystore),
    ):
        chain = signing.pem(signed) + signing.pem(authority)
        key = signing.key_pem(signed)
        _write(certificate_path, chain, _PUBLIC_MODE)
        _write(key_path, key, _PRIVATE_MODE)
        _write(key_store_path, key + chain, _PRIVATE_MODE)
    _write(paths.server_keystore_p12, signing.key_store("server", server, authority, password), _PRIVATE_MODE)
    _write(paths.client_keystore_p12, signing.key_store("client", client_signed, authority, password), _PRIVATE_MODE)
    _write(paths.truststore_p12, signing.trust_store(authority, password), _PUBLIC_MODE)
    return paths


def paths_of(directory: str, password: str = PASSWORD) -> Certificates:
    """Return the paths of the files that `write_certificates` writes to a directory."""
    files = (
        "ca.pem",
        *(f"server{end}" for end in (".pem", ".key", ".keystore.pem", ".keystore.p12")),
        *(f"client{end}" for end in (".pem", ".key", ".keystore.pem", ".keystore.p12")),
        "truststore.p12",
    )
    return Certificates._make([*(os.path.join(directory, name) for name in files), password])


def _write(path: str, content: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
