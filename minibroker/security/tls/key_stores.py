"""Kafka's key and trust stores as Python's `ssl` wants them: PEM.

PEM is taken as it is, PKCS12 and Java's own JKS and JCEKS are translated. Of several private keys the first one is
used, with the certificates that lead to its issuer.
"""

import re
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.security.missing_extra import missing_extra
from minibroker.security.tls.java_key_stores import MAGICS, JavaKeyStoreError, private_key, read_entries

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_DER: Final = b"\x30"
_TYPES: Final = ("PEM", "PKCS12", "JKS", "JCEKS")
_BLOCK: Final = re.compile(rb"-+BEGIN ([A-Z0-9 ]+)-+((?:\s+[\w-]+: [^\n]*)*)([a-zA-Z0-9/+=\s]+)-+END \1-+")
_LINE: Final = 64


class KeyStoreError(ValueError):
    """A store that cannot be used; the message names the key of the configuration and the file."""


class KeyStore(NamedTuple):
    """A private key with its certificates in PEM, and the password of the key."""

    pem: bytes
    password: bytes | None


def read_key_store(path: str, kind: str, store_password: str | None, key_password: str | None) -> KeyStore:
    """The key store of `ssl.keystore.location`; `kind` is its `.type`. KeyStoreError, OSError."""
    source = f"ssl.keystore.location: {path}"
    content = _content(source, path, kind)
    if kind == "PEM":
        return KeyStore(normalized(content), key_password.encode() if key_password else None)
    with _extra("A key store in PKCS12 or JKS"):
        from cryptography.hazmat.primitives.asymmetric.dsa import DSAPrivateKey  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_der_private_key,
            pkcs12,
        )
    with _explained(source, "ssl.keystore.password"):
        if content.startswith(MAGICS):
            entry = next((each for each in read_entries(content, store_password) if each.key is not None), None)
            if entry is None or entry.key is None or not entry.chain:
                raise KeyStoreError(f"{source} holds no private key with a certificate")
            der = private_key(entry.key, key_password or store_password or "")
            if der is None:
                raise KeyStoreError(f"{source}: ssl.key.password is not the password of the key {entry.alias!r}")
            key, certificates = load_der_private_key(der, None), list(map(ssl.DER_cert_to_PEM_cert, entry.chain))
        else:
            store = pkcs12.load_pkcs12(content, store_password.encode() if store_password else None)
            if store.key is None or store.cert is None:
                raise KeyStoreError(f"{source} holds no private key with a certificate")
            others = [each.certificate for each in store.additional_certs]
            chain = _chain(store.cert.certificate, others)
            key, certificates = store.key, [each.public_bytes(Encoding.PEM).decode() for each in chain]
    if isinstance(key, DSAPrivateKey):
        raise KeyStoreError(f"{source}: the private key is one of DSA, which only Java serves; make one of RSA or EC")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyStore(pem + "".join(certificates).encode(), None)


def read_trust_store(path: str, kind: str, password: str | None) -> str:
    """The certificates of `ssl.truststore.location`, in PEM. KeyStoreError, OSError."""
    source = f"ssl.truststore.location: {path}"
    content = _content(source, path, kind)
    if kind == "PEM":
        return normalized(content).decode("ascii", errors="replace")
    with _extra("A trust store in PKCS12 or JKS"):
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415 - an extra
    with _explained(source, "ssl.truststore.password"):
        if content.startswith(MAGICS):
            found = [ssl.DER_cert_to_PEM_cert(each.chain[0]) for each in read_entries(content, password)]
        else:
            store = pkcs12.load_pkcs12(content, password.encode() if password else None)
            certificates = [each.certificate for each in store.additional_certs]
            if store.cert is not None and store.key is None:
                certificates.insert(0, store.cert.certificate)
            found = [each.public_bytes(Encoding.PEM).decode() for each in certificates]
    if not found:
        raise KeyStoreError(f"{source} holds no trusted certificates")
    return "".join(found)


def normalized(pem: bytes) -> bytes:
    """Return PEM in lines, as OpenSSL wants it: Kafka also takes blanks in their place, as properties have them."""
    blocks = [
        b"-----BEGIN %b-----\n%b%b\n-----END %b-----\n" % (name, _head(head), _in_lines(body), name)
        for name, head, body in _BLOCK.findall(pem)
    ]
    return b"".join(blocks) or pem


def _head(head: bytes) -> bytes:
    return head.strip() + b"\n\n" if head.strip() else b""


def _in_lines(body: bytes) -> bytes:
    text = b"".join(body.split())
    return b"\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))


def _chain(leaf: "Certificate", others: "Sequence[Certificate]") -> "list[Certificate]":
    """Return a certificate and those that lead to its issuer; a store may also hold those of other keys."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return chain


@contextmanager
def _extra(feature: str) -> Generator[None]:
    try:
        yield
    except ImportError:
        raise missing_extra(feature, "cryptography") from None


@contextmanager
def _explained(source: str, password: str) -> Generator[None]:
    """Turn the error of a library into a KeyStoreError."""
    try:
        yield
    except KeyStoreError:
        raise
    except JavaKeyStoreError as error:
        raise KeyStoreError(f"{source}: {error} ({password})") from None
    except ValueError as error:
        hint = f". Is {password} right?" if "assword" in str(error) else ""
        raise KeyStoreError(f"{source}: {error}{hint}") from None


def _content(source: str, path: str, kind: str) -> bytes:
    if kind not in _TYPES:
        raise KeyStoreError(f"{source}: the type {kind!r} is not one of {', '.join(_TYPES)}")
    with open(path, "rb") as file:
        content = file.read()
    is_pem = b"-----BEGIN" in content
    if kind == "PEM" and not is_pem:
        raise KeyStoreError(f"{source} is not in PEM")
    # As Java, which tells the formats apart by their first bytes.
    if kind != "PEM" and (is_pem or not content.startswith((_DER, *MAGICS))):
        hint = "; for PEM set the type to PEM" if is_pem else ""
        raise KeyStoreError(f"{source} is not a key store in PKCS12 or JKS{hint}")
    return content
