"""Kafka's key and trust stores as Python's `ssl` wants them: PEM.

PEM is taken as it is, PKCS12 is translated. Java's own JKS is not read: it is proprietary, and Java itself has
written PKCS12 since its version 9.
"""

from typing import Final, NamedTuple

from minibroker.security.missing_extra import missing_extra

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER: Final = b"\x30"
_CONVERT: Final = (
    "keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12 makes a PKCS12 of it"
)


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
        return KeyStore(content, key_password.encode() if key_password else None)
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing_extra("A key store in PKCS12", "cryptography") from None
    try:
        store = pkcs12.load_pkcs12(content, store_password.encode() if store_password else None)
    except ValueError as error:
        raise KeyStoreError(f"{source}: {error}. Is ssl.keystore.password right?") from None
    if store.key is None or store.cert is None:
        raise KeyStoreError(f"{source} holds no private key with a certificate")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    return KeyStore(key + b"".join(each.public_bytes(Encoding.PEM) for each in chain), None)


def read_trust_store(path: str, kind: str, password: str | None) -> str:
    """The certificates of `ssl.truststore.location`, in PEM. KeyStoreError, OSError."""
    source = f"ssl.truststore.location: {path}"
    content = _content(source, path, kind)
    if kind == "PEM":
        return content.decode("ascii", errors="replace")
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing_extra("A trust store in PKCS12", "cryptography") from None
    try:
        store = pkcs12.load_pkcs12(content, password.encode() if password else None)
    except ValueError as error:
        raise KeyStoreError(f"{source}: {error}. Is ssl.truststore.password right?") from None
    found = [each.certificate for each in store.additional_certs]
    if store.cert is not None and store.key is None:
        found.insert(0, store.cert.certificate)
    if not found:
        raise KeyStoreError(f"{source} holds no trusted certificates")
    return b"".join(each.public_bytes(Encoding.PEM) for each in found).decode()


def _content(source: str, path: str, kind: str) -> bytes:
    if kind not in {"PEM", "PKCS12", "JKS"}:
        raise KeyStoreError(f"{source}: the type {kind!r} is not one of PEM, PKCS12 and JKS")
    with open(path, "rb") as file:
        content = file.read()
    if content.startswith(_JKS):
        raise KeyStoreError(f"{source} is in Java's own format JKS, which is not read: {_CONVERT.format(path=path)}")
    if kind != "PEM" and not content.startswith(_DER):  # as Java, which takes PKCS12 for the type JKS, too
        hint = "; for PEM set the type to PEM" if b"-----BEGIN" in content else ""
        raise KeyStoreError(f"{source} is not a key store in PKCS12{hint}")
    return content
