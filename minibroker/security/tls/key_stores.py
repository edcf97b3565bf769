"""Reads Kafka's key and trust stores as PEM for Python's `ssl`.

PEM is used as is, and PKCS12 and Java's own JKS and JCEKS are converted. If there are several private keys, the first
one is used, with the certificate chain up to its issuer. JKS and JCEKS are lists of entries with a digest at the end
(`sun.security.provider.JavaKeyStore`). JKS protects a private key with a stream of SHA-1 digests, and JCEKS with triple
DES (`com.sun.crypto.provider.KeyProtector`).
"""

import hashlib
import re
import ssl
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker_storage.installation_hints import missing_extra

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


MAGICS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PRIVATE_KEY, _CERTIFICATE, _SECRET_KEY = 1, 2, 3
_WHITENER: Final = b"Mighty Aphrodite"
_JKS_ALGORITHM: Final = bytes.fromhex("2b060104012a02110101")
_JCEKS_ALGORITHM: Final = bytes.fromhex("2b060104012a021301")
_DIGEST_BYTES: Final = 20


class JavaKeyStoreError(ValueError):
    """A JKS or JCEKS store that cannot be read. The message gives the reason."""


class Entry(NamedTuple):
    """An entry of a JKS or JCEKS store.

    Attributes:
        alias: The name of the entry.
        key: The protected private key in DER; None for a trusted certificate.
        chain: Certificates in DER, beginning with the key's own certificate.
    """

    alias: str
    key: bytes | None
    chain: list[bytes]


def read_entries(content: bytes, password: str | None) -> list[Entry]:
    """Return the entries of a JKS or JCEKS store.

    Raises:
        JavaKeyStoreError: The store is corrupt, or the password is wrong.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password is not None and hashlib.sha1(_utf_16(password) + _WHITENER + body).digest() != digest:  # noqa: S324 - the format's
        raise JavaKeyStoreError("the password of the store is wrong, or the store is damaged")
    reader = _Reader(body[4:])
    has_types = reader.number(4) > 1
    return [_read_entry(reader, has_types=has_types) for _ in range(reader.number(4))]


def _read_entry(reader: "_Reader", *, has_types: bool) -> Entry:
    tag, alias = reader.number(4), reader.text()
    reader.take(8)  # The creation time is not used.
    if tag == _SECRET_KEY:
        raise JavaKeyStoreError(f"the entry {alias!r} is a secret key, which only Java can read")
    if tag not in {_PRIVATE_KEY, _CERTIFICATE}:
        raise JavaKeyStoreError("the store is damaged")
    key = reader.take(reader.number(4)) if tag == _PRIVATE_KEY else None
    count = 1 if key is None else reader.number(4)
    chain: list[bytes] = []
    for _ in range(count):
        if has_types:
            reader.text()
        chain.append(reader.take(reader.number(4)))
    return Entry(alias, key, chain)


def decrypt_private_key(protected: bytes, password: str) -> bytes | None:
    """Return a private key in DER (PKCS#8), or None if the password is wrong.

    Raises:
        JavaKeyStoreError: The protection algorithm is unknown.
    """
    (_, algorithm), (_, data) = list(_read_der(next(_read_der(protected))[1]))[:2]
    parts = list(_read_der(algorithm))
    if parts[0][1] == _JKS_ALGORITHM:
        return _decrypt_jks(data, _utf_16(password))
    if parts[0][1] == _JCEKS_ALGORITHM:
        (_, salt), (_, iterations) = list(_read_der(parts[1][1]))[:2]
        return _decrypt_jceks(data, password.encode("latin-1", "replace"), salt, int.from_bytes(iterations, "big"))
    raise JavaKeyStoreError(f"its private key is protected in a way that is not known ({parts[0][1].hex()})")


def _decrypt_jks(data: bytes, password: bytes) -> bytes | None:
    salt, hidden, check = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    stream, block = bytearray(), salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(password + block).digest()  # noqa: S324 - the format's
        stream += block
    key = bytes(hidden_byte ^ stream_byte for hidden_byte, stream_byte in zip(hidden, stream, strict=False))
    return key if hashlib.sha1(password + key).digest() == check else None  # noqa: S324 - the format's


def _decrypt_jceks(data: bytes, password: bytes, salt: bytes, iterations: int) -> bytes | None:
    from cryptography.hazmat.primitives.ciphers import Cipher, modes  # noqa: PLC0415 - an extra

    # The import warns, because each release of cryptography moves TripleDES to another module.
    with warnings.catch_warnings(action="ignore"):
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES  # noqa: PLC0415 - an extra
    material = b""
    for half in (salt[:4], salt[4:]):
        block = half
        for _ in range(iterations):
            block = hashlib.md5(block + password).digest()  # noqa: S324 - the format's
        material += block
    decryptor = Cipher(TripleDES(material[:24]), modes.CBC(material[24:])).decryptor()
    padded = decryptor.update(data) + decryptor.finalize()
    padding = padded[-1:] * padded[-1]
    return padded[: -len(padding)] if 0 < len(padding) <= 8 and padded.endswith(padding) else None  # noqa: PLR2004 - a block


def _utf_16(password: str) -> bytes:
    return password.encode("utf-16-be")


class _Reader:
    """Reads the fields of a store in sequence, and raises JavaKeyStoreError if there are too few bytes."""

    def __init__(self, data: bytes) -> None:
        self.remaining = data

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        if count > len(self.remaining):
            raise JavaKeyStoreError("the store is cut short")
        field, self.remaining = self.remaining[:count], self.remaining[count:]
        return field

    def number(self, count: int) -> int:
        """Return the next number, which has `count` bytes."""
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        """Return the next string."""
        return self.take(self.number(2)).decode("utf-8", "replace")


def _read_der(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each DER element.

    Raises:
        JavaKeyStoreError: The data is truncated.
    """
    reader = _Reader(data)
    while reader.remaining:
        tag, length = reader.number(1), reader.number(1)
        if length & 0x80:
            length = reader.number(length & 0x7F)
        yield tag, reader.take(length)


_DER: Final = b"\x30"
_TYPES: Final = ("PEM", "PKCS12", "JKS", "JCEKS")
_BLOCK: Final = re.compile(rb"-+BEGIN ([A-Z0-9 ]+)-+((?:\s+[\w-]+: [^\n]*)*)([a-zA-Z0-9/+=\s]+)-+END \1-+")
_LINE: Final = 64


class KeyStoreError(ValueError):
    """A store that cannot be used. The message names the configuration key and the file."""


class KeyStore(NamedTuple):
    """A private key with its certificates in PEM, and the password of the key."""

    pem: bytes
    password: bytes | None


def read_key_store(path: str, kind: str, store_password: str | None, key_password: str | None) -> KeyStore:
    """Return the key store in `ssl.keystore.location`. `kind` is the value of `ssl.keystore.type`.

    Raises:
        KeyStoreError: The store cannot be used.
        OSError: The file cannot be read.
    """
    source = f"ssl.keystore.location: {path}"
    content = _read_content(source, path, kind)
    if kind == "PEM":
        return KeyStore(normalize_pem(content), key_password.encode() if key_password else None)
    with _require_extra("A key store in PKCS12 or JKS"):
        from cryptography.hazmat.primitives.asymmetric.dsa import DSAPrivateKey  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_der_private_key,
            pkcs12,
        )
    with _convert_errors(source, "ssl.keystore.password"):
        if content.startswith(MAGICS):
            entry = next((entry for entry in read_entries(content, store_password) if entry.key is not None), None)
            if entry is None or entry.key is None or not entry.chain:
                raise KeyStoreError(f"{source} holds no private key with a certificate")
            der = decrypt_private_key(entry.key, key_password or store_password or "")
            if der is None:
                raise KeyStoreError(f"{source}: ssl.key.password is not the password of the key {entry.alias!r}")
            key, certificates = load_der_private_key(der, None), list(map(ssl.DER_cert_to_PEM_cert, entry.chain))
        else:
            store = pkcs12.load_pkcs12(content, store_password.encode() if store_password else None)
            if store.key is None or store.cert is None:
                raise KeyStoreError(f"{source} holds no private key with a certificate")
            additional = [certificate.certificate for certificate in store.additional_certs]
            chain = _build_chain(store.cert.certificate, additional)
            key, certificates = store.key, [certificate.public_bytes(Encoding.PEM).decode() for certificate in chain]
    if isinstance(key, DSAPrivateKey):
        raise KeyStoreError(f"{source}: the private key is one of DSA, which only Java serves; make one of RSA or EC")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyStore(pem + "".join(certificates).encode(), None)


def read_trust_store(path: str, kind: str, password: str | None) -> str:
    """Return the certificates in `ssl.truststore.location` as PEM.

    Raises:
        KeyStoreError: The store cannot be used.
        OSError: The file cannot be read.
    """
    source = f"ssl.truststore.location: {path}"
    content = _read_content(source, path, kind)
    if kind == "PEM":
        return normalize_pem(content).decode("ascii", errors="replace")
    with _require_extra("A trust store in PKCS12 or JKS"):
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415 - an extra
    with _convert_errors(source, "ssl.truststore.password"):
        if content.startswith(MAGICS):
            pem_certificates = [ssl.DER_cert_to_PEM_cert(entry.chain[0]) for entry in read_entries(content, password)]
        else:
            store = pkcs12.load_pkcs12(content, password.encode() if password else None)
            certificates = [certificate.certificate for certificate in store.additional_certs]
            if store.cert is not None and store.key is None:
                certificates.insert(0, store.cert.certificate)
            pem_certificates = [certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates]
    if not pem_certificates:
        raise KeyStoreError(f"{source} holds no trusted certificates")
    return "".join(pem_certificates)


def normalize_pem(pem: bytes) -> bytes:
    """Return PEM with line breaks for OpenSSL. Kafka also accepts spaces instead, as in property files."""
    blocks = [
        b"-----BEGIN %b-----\n%b%b\n-----END %b-----\n" % (name, _format_head(head), _wrap_lines(body), name)
        for name, head, body in _BLOCK.findall(pem)
    ]
    return b"".join(blocks) or pem


def _format_head(head: bytes) -> bytes:
    return head.strip() + b"\n\n" if head.strip() else b""


def _wrap_lines(body: bytes) -> bytes:
    text = b"".join(body.split())
    return b"\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))


def _build_chain(leaf: "Certificate", candidates: "Sequence[Certificate]") -> "list[Certificate]":
    """Return a certificate followed by those of its issuers. A store can also contain certificates of other keys."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [other for other in candidates if other.subject == chain[-1].issuer and other not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain


@contextmanager
def _require_extra(feature: str) -> Generator[None]:
    try:
        yield
    except ImportError:
        raise missing_extra(feature, "cryptography") from None


@contextmanager
def _convert_errors(source: str, password: str) -> Generator[None]:
    """Convert a library's error to a KeyStoreError."""
    try:
        yield
    except KeyStoreError:
        raise
    except JavaKeyStoreError as error:
        raise KeyStoreError(f"{source}: {error} ({password})") from None
    except ValueError as error:
        hint = f". Is {password} right?" if "assword" in str(error) else ""
        raise KeyStoreError(f"{source}: {error}{hint}") from None


def _read_content(source: str, path: str, kind: str) -> bytes:
    if kind not in _TYPES:
        raise KeyStoreError(f"{source}: the type {kind!r} is not one of {', '.join(_TYPES)}")
    with open(path, "rb") as file:
        content = file.read()
    is_pem = b"-----BEGIN" in content
    if kind == "PEM" and not is_pem:
        raise KeyStoreError(f"{source} is not in PEM")
    # Like Java, distinguish PKCS12 and JKS by their first bytes instead of the configured type.
    if kind != "PEM" and (is_pem or not content.startswith((_DER, *MAGICS))):
        hint = "; for PEM set the type to PEM" if is_pem else ""
        raise KeyStoreError(f"{source} is not a key store in PKCS12 or JKS{hint}")
    return content
