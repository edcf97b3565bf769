"""Principals (`org.apache.kafka.common.security.auth.KafkaPrincipal`), and text of clients made fit for a log."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A type, always `User` unless a token says otherwise, and a name; `str` gives "User:alice"."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


class Client:
    """A client as rights and quotas see it (`minibroker.server.requests.session.Session`).

    Attributes:
        principal: whom the client has proved to be.
        client_host: where it is, as Kafka writes addresses.
        muted_ms: for how long nothing is to be read from it.
    """

    __slots__ = ("client_host", "muted_ms", "principal")

    principal: Principal
    client_host: str
    muted_ms: int


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client on a listener without authentication."""

BROKER: Final = Principal("Broker", "minibroker")
"""The broker itself, where it asks its own handlers; it may do everything, and no client can be it."""


_MOST: Final = 300


def one_line(text: str) -> str:
    """The text, cut to 300 characters; where it is not all printable, escaped as in a literal."""
    shown = text[:_MOST]
    return shown if shown.isprintable() else repr(shown)[1:-1]
