"""The interface of SASL mechanisms, and PLAIN (RFC 4616): tokens in, tokens out, and the user in the end.

A mechanism knows no sockets and no requests. Its errors are of two kinds, as in Kafka's `SaslServerAuthenticator`: what
clients get (`SaslAuthenticationError`), and what they do not get, since it would say which users exist
(`SaslError`). PLAIN has a name and a password in one message (`PlainSaslServer`, `PlainServerCallbackHandler`).
"""

import hmac
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"

MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""Those that are served. GSSAPI, Kafka's default, needs a Kerberos, which tests do not have."""

SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""A user's name in a message of SCRAM or OAUTHBEARER (RFC 5802): commas are written =2C in it, and "=" as =3D."""


class SaslError(Exception):
    """The exchange has failed; the client does not learn why."""


class SaslAuthenticationError(SaslError):
    """The exchange has failed, and the message says why to the client."""


class SaslServer(ABC):
    """One exchange of tokens with one client.

    Attributes:
        mechanism: its name.
        user: the name that the client has proved to have; None until it has.
        expires_ms: when the credentials end, in milliseconds since the epoch; None if they do not.
        is_token: the client has shown a delegation token, and may make no further ones.
    """

    mechanism: str
    user: str | None = None
    expires_ms: int | None = None
    is_token = False

    @abstractmethod
    def evaluate(self, token: bytes) -> bytes:
        """The answer to a token of the client. SaslError ends the exchange."""

    @property
    def is_complete(self) -> bool:
        """Has the client proved who it is?"""
        return self.user is not None


_PARTS: Final = 3
_USER_OPTION: Final = "user_"


class PlainServer(SaslServer):
    """One exchange.

    Args:
        passwords: of the users, by their names.
    """

    mechanism = PLAIN

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes) -> bytes:
        """The message is [authorization id] NUL name NUL password, in UTF-8; the answer is empty."""
        parts = token.decode(errors="replace").split("\0", _PARTS)  # Kafka counts no further, either
        if len(parts) != _PARTS:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, name, password = parts
        if not name:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        expected = self._passwords.get(name)
        # A user that does not exist takes as long as one whose password is wrong.
        matches = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not matches:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != name:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = name
        return b""


def plain_passwords(options: Mapping[str, str]) -> dict[str, str]:
    """The users of a `PlainLoginModule`, whose options `user_NAME` are their passwords."""
    return {
        name.removeprefix(_USER_OPTION): password
        for name, password in options.items()
        if name.startswith(_USER_OPTION) and name != _USER_OPTION
    }
