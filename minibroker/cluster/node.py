"""Node: one broker of a cluster, its listeners and its fetch sessions."""

from collections.abc import Mapping
from typing import Final, Protocol

from minibroker.cluster.fetch_sessions import FetchSessionCache

NO_NODE: Final = -1
"""In place of a leader or a controller where there is none."""


class Listener(Protocol):
    """A node's socket and connections."""

    def close(self) -> None:
        """Take no more connections and abort those that there are."""
        ...

    def open(self) -> None:
        """Listen again, at the same address."""
        ...

    async def settled(self) -> None:
        """Wait until all that was begun is done."""
        ...

    def reconfigure(self) -> None:
        """The configuration has changed."""
        ...


class ListenerEndpoint:
    """One of a broker's listeners, as clients see it.

    Attributes:
        advertised: (host, port) that clients get; None for `port` at the host that they have connected to.
        given: `advertised` at the start, before it was altered.
        port: what it listens on; 0 before it does.
    """

    __slots__ = ("advertised", "given", "port")

    def __init__(self, advertised: tuple[str, int] | None = None, port: int = 0) -> None:
        self.port = port
        self.advertised = self.given = self.with_port(advertised)

    def with_port(self, address: tuple[str, int] | None) -> tuple[str, int] | None:
        """Put the listener's port in the place of port 0 (`ListenerInfo.withEphemeralPortsCorrected`)."""
        return address and (address[0], address[1] or self.port)


class Node:
    """One broker.

    Attributes:
        endpoints: its listeners by name.
        listener: its sockets; None where there are none, as in tests.
        fetch_sessions: of its clients.
    """

    __slots__ = ("endpoints", "fetch_sessions", "id", "is_up", "listener", "rack")

    def __init__(self, node_id: int, rack: str | None = None, session_slots: int = 0) -> None:
        self.id = node_id
        self.rack = rack
        self.is_up = True
        self.endpoints: dict[str, ListenerEndpoint] = {}
        self.listener: Listener | None = None
        self.fetch_sessions = FetchSessionCache(session_slots)

    def address(self, listener: str, dialed: tuple[str, int]) -> tuple[str, int]:
        """(host, port) for a client that has found another node of this cluster at `dialed`, by that listener."""
        endpoint = self.endpoints.get(listener)
        return (dialed[0], 0) if endpoint is None else endpoint.advertised or (dialed[0], endpoint.port)

    def advertise(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Take addresses by the names of listeners; a listener without one advertises what it did at the start."""
        for name, endpoint in self.endpoints.items():
            endpoint.advertised = endpoint.with_port(addresses.get(name, endpoint.given))

    def forget_sessions(self) -> None:
        """The node stops, and with it go its fetch sessions."""
        self.fetch_sessions.clear()
