"""The interface of SASL mechanisms, and PLAIN (RFC 4616).

A mechanism answers tokens with tokens until the user is authenticated, independently of sockets and requests. As in
Kafka's `SaslServerAuthenticator`, there are two kinds of errors. Clients get the message of a
`SaslAuthenticationError`. They do not get the message of any other `SaslError`, because it would reveal which users
exist. In PLAIN, the client sends name and password in one message (`PlainSaslServer`, `PlainServerCallbackHandler`).
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
"""The supported mechanisms. GSSAPI, Kafka's default, requires Kerberos, which tests do not have."""

SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""A user name in a SCRAM or OAUTHBEARER message (RFC 5802), in which a comma is =2C and an equals sign is =3D."""


class SaslError(Exception):
    """A failed exchange. The reason is not sent to the client."""


class SaslAuthenticationError(SaslError):
    """A failed exchange whose error message is sent to the client."""


class SaslServer(ABC):
    """One exchange of tokens with one client.

    Attributes:
        mechanism: The name of the mechanism.
        user: The authenticated user name; None until the exchange succeeds.
        expires_ms: The expiry time of the credentials, in milliseconds since the epoch; None if they do not expire.
        is_token: Whether the client used a delegation token. Such a client is not allowed to create other tokens.
    """

    mechanism: str
    user: str | None = None
    expires_ms: int | None = None
    is_token = False

    @abstractmethod
    def evaluate(self, token: bytes) -> bytes:
        """Return the response to a token from the client.

        Raises:
            SaslError: The exchange has failed.
        """

    @property
    def is_complete(self) -> bool:
        """Whether the client has authenticated."""
        return self.user is not None


_PARTS: Final = 3
_USER_OPTION: Final = "user_"


class PlainServer(SaslServer):
    """A PLAIN exchange.

    Args:
        passwords: The passwords by user name.
    """

    mechanism = PLAIN

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes) -> bytes:
        """Check the message [authorization id] NUL name NUL password, in UTF-8, and return an empty response."""
        parts = token.decode(errors="replace").split("\0", _PARTS)  # Like Kafka, limit the number of parts.
        if len(parts) != _PARTS:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, name, password = parts
        if not name:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        expected = self._passwords.get(name)
        # Compare even for an unknown user, so that the response takes as long as for a wrong password.
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
    """Return the passwords by user name, from the options `user_NAME` of a `PlainLoginModule`."""
    return {
        name.removeprefix(_USER_OPTION): password
        for name, password in options.items()
        if name.startswith(_USER_OPTION) and name != _USER_OPTION
    }
