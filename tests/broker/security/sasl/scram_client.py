"""The client side of SCRAM for tests, according to RFC 5802."""

import base64
import hashlib
import hmac
from typing import Final

from minibroker.security.sasl.scram import HASHES


class ScramClient:
    """One exchange; `nonce` is the client's part of the nonce."""

    def __init__(self, mechanism: str, name: str, password: str, *, nonce: str = "abc", extensions: str = "") -> None:
        self._hash: Final = HASHES[mechanism]
        self._password = password
        self._bare = f"n={name},r={nonce}{extensions}"
        self.final = b""
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes:
        """Return the final message, which responds to the broker's challenge."""
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        unproved = f"c=biws,r={fields['r']}"
        auth_message = f"{self._bare},{challenge.decode()},{unproved}".encode()
        key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, key).digest(), auth_message, self._hash)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), auth_message, self._hash)
        self.final = f"{unproved},p={base64.b64encode(proof).decode()}".encode()
        return self.final

    def trusts(self, last: bytes) -> bool:
        """Return whether the broker has also proved that it has the password."""
        return last == b"v=" + base64.b64encode(self._signature)
