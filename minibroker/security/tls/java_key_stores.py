"""Java's own key stores JKS and JCEKS, with the private keys and certificates in them.

Both are lists of entries with a digest at the end (`sun.security.provider.JavaKeyStore`). JKS hides a private key with
a stream of SHA-1 digests, JCEKS with triple DES (`com.sun.crypto.provider.KeyProtector`).
"""

import hashlib
import warnings
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGICS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PRIVATE_KEY, _CERTIFICATE, _SECRET_KEY = 1, 2, 3
_WHITENER: Final = b"Mighty Aphrodite"
_OF_JKS: Final = bytes.fromhex("2b060104012a02110101")
_OF_JCEKS: Final = bytes.fromhex("2b060104012a021301")
_DIGEST_BYTES: Final = 20


class JavaKeyStoreError(ValueError):
    """A store that cannot be read; the message says why."""


class Entry(NamedTuple):
    """An entry of a store.

    Attributes:
        alias: its name.
        key: the protected private key in DER; None in an entry that is a trusted certificate.
        chain: certificates in DER, that of the key first.
    """

    alias: str
    key: bytes | None
    chain: list[bytes]


def read_entries(content: bytes, password: str | None) -> list[Entry]:
    """Return the entries of a store. JavaKeyStoreError for a damaged store or a wrong password."""
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password is not None and hashlib.sha1(_utf_16(password) + _WHITENER + body).digest() != digest:  # noqa: S324 - the format's
        raise JavaKeyStoreError("the password of the store is wrong, or the store is damaged")
    reader = _Reader(body[4:])
    has_types = reader.number(4) > 1
    return [_entry(reader, has_types=has_types) for _ in range(reader.number(4))]


def _entry(reader: "_Reader", *, has_types: bool) -> Entry:
    tag, alias = reader.number(4), reader.text()
    reader.take(8)  # the time of its making
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


def private_key(protected: bytes, password: str) -> bytes | None:
    """Return a private key in PKCS#8 and DER, or None if this is not its password. JavaKeyStoreError."""
    (_, algorithm), (_, data) = list(_der(next(_der(protected))[1]))[:2]
    parts = list(_der(algorithm))
    if parts[0][1] == _OF_JKS:
        return _from_jks(data, _utf_16(password))
    if parts[0][1] == _OF_JCEKS:
        (_, salt), (_, iterations) = list(_der(parts[1][1]))[:2]
        return _from_jceks(data, password.encode("latin-1", "replace"), salt, int.from_bytes(iterations, "big"))
    raise JavaKeyStoreError(f"its private key is protected in a way that is not known ({parts[0][1].hex()})")


def _from_jks(data: bytes, password: bytes) -> bytes | None:
    salt, hidden, check = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    stream, block = bytearray(), salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(password + block).digest()  # noqa: S324 - the format's
        stream += block
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    return key if hashlib.sha1(password + key).digest() == check else None  # noqa: S324 - the format's


def _from_jceks(data: bytes, password: bytes, salt: bytes, iterations: int) -> bytes | None:
    from cryptography.hazmat.primitives.ciphers import Cipher, modes  # noqa: PLC0415 - an extra

    with warnings.catch_warnings(action="ignore"):  # it moves to another module with each release
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
    """Reads the fields of a store one after the other. JavaKeyStoreError where there are too few bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def has_more(self) -> bool:
        """Whether there are bytes left."""
        return bool(self._data)

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count > len(self._data):
            raise JavaKeyStoreError("the store is cut short")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def number(self, count: int) -> int:
        """Return the next number, which has `count` bytes."""
        return int.from_bytes(self.take(count), "big")

    def text(self) -> str:
        """Return the next string."""
        return self.take(self.number(2)).decode("utf-8", "replace")


def _der(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element. JavaKeyStoreError where there are too few bytes."""
    reader = _Reader(data)
    while reader.has_more:
        tag, length = reader.number(1), reader.number(1)
        if length & 0x80:
            length = reader.number(length & 0x7F)
        yield tag, reader.take(length)
