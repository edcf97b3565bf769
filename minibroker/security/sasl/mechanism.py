"""The interface of SASL mechanisms: tokens in, tokens out, and the user in the end.

A mechanism knows no sockets and no requests. Its errors are of two kinds, as in Kafka's `SaslServerAuthenticator`: what
clients get (`SaslAuthenticationError`), and what they do not get, since it would say which users exist
(`SaslError`).
"""

from abc import ABC, abstractmethod
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
