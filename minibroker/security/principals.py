"""Principals (`org.apache.kafka.common.security.auth.KafkaPrincipal`), and escaping of text from clients for logs."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A type and a name. The type is `User` unless a token says otherwise. `str` returns "User:alice"."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class Client:
    """A client, as authorization and quotas see it (`minibroker.server.requests.session.Session`).

    Attributes:
        principal: The authenticated principal.
        client_host: The client's address in Kafka's format.
        muted_ms: The time for which nothing is read from the client, in milliseconds.
    """

    principal: Principal
    client_host: str
    muted_ms: int


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client on a listener without authentication."""

BROKER: Final = Principal("Broker", "minibroker")
"""The broker itself when it calls its own handlers. It is allowed everything, and no client can obtain it."""


_MAX_LOGGED_CHARACTERS: Final = 300


def escape_for_log(text: str) -> str:
    """Return the first 300 characters of a text, escaped like a literal if they are not all printable."""
    beginning = text[:_MAX_LOGGED_CHARACTERS]
    return beginning if beginning.isprintable() else repr(beginning)[1:-1]
