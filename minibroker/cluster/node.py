"""One broker of a cluster, with its listeners and its fetch sessions."""

from collections.abc import Mapping
from typing import Final, Protocol

from minibroker.cluster.fetch_sessions import FetchSessionCache

NO_NODE: Final = -1
"""The id used if there is no leader or controller."""


class Listener(Protocol):
    """The sockets and connections of a node."""

    def close(self) -> None:
        """Stop accepting connections, and abort the existing ones."""

    def open(self) -> None:
        """Listen again at the same address."""

    async def wait_until_settled(self) -> None:
        """Wait until all pending changes are complete."""

    def reconfigure(self) -> None:
        """Apply a changed configuration."""


class ListenerEndpoint:
    """A listener of a broker as its clients see it.

    Attributes:
        advertised: The (host, port) that clients get, or None for `port` at the host that they connected to.
        given: The value of `advertised` at the start, before any change at run time.
        port: The listening port, or 0 before the listener is open.
    """

    def __init__(self, advertised: tuple[str, int] | None = None, port: int = 0) -> None:
        self.port = port
        self.advertised = self.given = self.with_port(advertised)

    def with_port(self, address: tuple[str, int] | None) -> tuple[str, int] | None:
        """Replace port 0 with the port on which the listener is open (`ListenerInfo.withEphemeralPortsCorrected`)."""
        return address and (address[0], address[1] or self.port)


class Node:
    """One broker.

    Attributes:
        starts: The number of times that the broker was started again.
        endpoints: The listeners by name.
        listener: The sockets, or None if there are none, as in tests.
        fetch_sessions: The fetch sessions of this broker's clients.
    """

    def __init__(self, node_id: int, rack: str | None = None, session_slots: int = 0) -> None:
        self.id = node_id
        self.rack = rack
        self.is_up = True
        self.starts = 0
        self.endpoints: dict[str, ListenerEndpoint] = {}
        self.listener: Listener | None = None
        self.fetch_sessions = FetchSessionCache(session_slots)

    def address(self, listener: str, dialed: tuple[str, int]) -> tuple[str, int]:
        """Return this node's (host, port) for a client that reached another node at `dialed`, on the same listener."""
        endpoint = self.endpoints.get(listener)
        return (dialed[0], 0) if endpoint is None else endpoint.advertised or (dialed[0], endpoint.port)

    def advertise(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Set the advertised addresses, by listener name. Other listeners return to their original addresses."""
        for name, endpoint in self.endpoints.items():
            endpoint.advertised = endpoint.with_port(addresses.get(name, endpoint.given))
