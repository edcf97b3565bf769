"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), compatible with Kafka's `ScramSaslServer`.

The client proves that it has a password of which the broker stores only hashes. Passwords are used as UTF-8 without
SASLprep, which Kafka omits (`ScramFormatter.normalize`). A library that applies SASLprep would reject clients that
Kafka accepts. Key derivation and comparison use `hashlib` and `hmac`. Channel binding is not supported.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker.security.sasl.mechanism import (
    SASL_NAME,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    SaslAuthenticationError,
    SaslError,
    SaslServer,
)

HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The limits of Kafka's controller. A client computes this many iterations for each login."""

_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE}){{0,100}}"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{SASL_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{SASL_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_NONCE_BYTES: Final = 24


class ScramCredential(NamedTuple):
    """A stored credential. It is sufficient to check a proof, but not to create one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramAccount(NamedTuple):
    """The account of a login: its user, and the credential that checks the proof.

    Attributes:
        user: The user after the login. If the client logged in with a delegation token, this is the token's owner.
        expires_ms: See `SaslServer.expires_ms`.
    """

    credential: ScramCredential
    user: str
    expires_ms: int | None = None


FindAccount = Callable[[str, bool], ScramAccount | None]
"""Finds the account of a user name, or of a delegation token's id if the flag is true. Returns None if none exists."""


def derive_credential(
    mechanism: str, password: str, *, iterations: int = MIN_ITERATIONS, salt: bytes | None = None
) -> ScramCredential:
    """Derive a SCRAM credential from a password, with a random salt by default."""
    salt = secrets.token_bytes(_NONCE_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return derive_salted_credential(mechanism, salted, salt, iterations)


def derive_salted_credential(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Derive the credential of a salted password, as sent in AlterUserScramCredentials."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt, hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name), iterations
    )


class ScramServer(SaslServer):
    """The server's side of one SCRAM exchange. Messages of another exchange are refused, because the nonces differ."""

    def __init__(self, mechanism: str, find: FindAccount) -> None:
        self.mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._find = find
        self._account: ScramAccount | None = None
        self._nonce = ""
        self._auth_message = ""  # The beginning of SCRAM's AuthMessage, over which the proofs are computed.
        self._failed = False

    def evaluate(self, token: bytes) -> bytes:
        """Return the response to the client's first or final message."""
        if self._failed or self.is_complete:
            raise SaslError("Unexpected challenge: the exchange is over")
        self._failed = True
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            raise SaslError("Invalid SCRAM message: it is not ASCII") from None
        message = self._answer_first(text) if self._account is None else self._answer_final(text, self._account)
        self._failed = False
        return message.encode()

    def _answer_first(self, text: str) -> str:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise SaslError("Invalid SCRAM client first message format")
        name = match["name"].replace("=2C", ",").replace("=3D", "=")
        extensions = dict(extension.split("=", 1) for extension in match["extensions"].split(",") if extension)
        self.is_token = extensions.get("tokenauth", "").lower() == "true"
        account = self._find(name, self.is_token)
        if account is None:
            raise SaslError(f"Authentication failed: there is no {'token' if self.is_token else 'user'} {name!r}")
        if match["authorization_id"] and match["authorization_id"] != name:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._account = account
        self._nonce = match["nonce"] + secrets.token_urlsafe(_NONCE_BYTES)
        salt = base64.b64encode(account.credential.salt).decode()
        server_first = f"r={self._nonce},s={salt},i={account.credential.iterations}"
        self._auth_message = f"{match['bare']},{server_first}"
        return server_first

    def _answer_final(self, text: str, account: ScramAccount) -> str:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise SaslError("Invalid SCRAM client final message format")
        if not hmac.compare_digest(match["nonce"], self._nonce):
            raise SaslError("Invalid client nonce in the final client message.")
        auth_message = f"{self._auth_message},{match['unproved']}".encode()
        credential = account.credential
        signature = hmac.digest(credential.stored_key, auth_message, self._hash)
        proof = base64.b64decode(match["proof"])
        if len(proof) != len(signature):
            raise SaslError("Invalid client credentials")
        client_key = bytes(
            proof_byte ^ signature_byte for proof_byte, signature_byte in zip(proof, signature, strict=True)
        )
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), credential.stored_key):
            raise SaslError("Invalid client credentials")
        self.user, self.expires_ms = account.user, account.expires_ms
        return "v=" + base64.b64encode(hmac.digest(credential.server_key, auth_message, self._hash)).decode()


MECHANISM_NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
MECHANISM_NAMES: Final = {number: name for name, number in MECHANISM_NUMBERS.items()}
