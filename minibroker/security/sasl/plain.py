"""PLAIN (RFC 4616): a name and a password in one message (`PlainSaslServer`, `PlainServerCallbackHandler`)."""

import hmac
from collections.abc import Mapping
from typing import Final

from minibroker.security.sasl.mechanism import PLAIN, SaslAuthenticationError, SaslServer

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
