"""The session of a connection: its principal, its client's host, and the address that it advertises."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from minibroker.cluster.listeners import PLAINTEXT
from minibroker.security.principals import ANONYMOUS, Client, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.cluster.node import Node
    from minibroker.coordinators.groups.classic.client_quirks import EarlyJoiner
    from minibroker.server.requests.authentication import Authentication
    from minibroker.server.requests.call import Call
    from minibroker.server.services import Services


class Session(Client):
    """The state of one connection that outlives a request.

    Attributes:
        services: of the broker that serves.
        node: the one whose listener has taken the connection.
        advertised: (host, port) at which this client should find `node`.
        client_host: where the client is, as Kafka writes addresses, and `client_port` its port there.
        calls: the `Call` of each API that the connection uses, by the first four bytes of its requests.
        principal: whom the client has proved to be.
        listener: the name of the one that it has come by, and `protocol` its security protocol.
        authentication: its way through SASL; None where the listener asks for none.
        muted_ms: for how long nothing is to be read from the client, since it is over a quota.
        origin: the connection in the recording (`inspection.recording.BrokerConnection`); None before a request was
            recorded.
        software: the client's name and version, as ApiVersions (v3) has said them.
        early_joiner: what is known of a client that joins groups early; None for all others.
        waited_fetches: how many fetches have waited since the last records; None before the connection has asked for
            ApiVersions or got records. Until then fetches wait for as long as they say.
        keep: returns a view of a frame's bytes that outlives the wake-up in which it came.
        ends: what is called when the connection has gone.
    """

    __slots__ = (
        "advertised",
        "authentication",
        "calls",
        "client_port",
        "early_joiner",
        "ends",
        "keep",
        "listener",
        "node",
        "origin",
        "protocol",
        "services",
        "software",
        "waited_fetches",
    )

    def __init__(
        self,
        services: Services,
        node: Node | None = None,
        *,
        advertised: tuple[str, int],
        client_host: str = "/127.0.0.1",
        principal: Principal = ANONYMOUS,
        listener: str = PLAINTEXT,
        protocol: str = PLAINTEXT,
    ) -> None:
        self.services = services
        self.node = node or services.core.cluster.first
        self.advertised = advertised
        self.client_host = client_host
        self.client_port = 0
        self.calls: dict[int, Call] = {}
        self.principal = principal
        self.listener = listener
        self.protocol = protocol
        self.authentication: Authentication | None = None
        self.muted_ms = 0
        self.origin: Any = None
        self.software: tuple[str, str] = ("unknown", "unknown")
        self.early_joiner: EarlyJoiner | None = None
        self.waited_fetches: int | None = None
        self.keep: Callable[[memoryview], memoryview] = _copied
        self.ends: tuple[Callable[[], None], ...] = ()

    def close(self) -> None:
        """The connection has gone."""
        ends, self.ends = self.ends, ()
        for end in ends:
            end()


def _copied(frame: memoryview) -> memoryview:
    return memoryview(bytearray(frame))


def address_in_kafka(peer: tuple[str, int] | tuple[str, int, int, int] | None) -> str:
    """Return an address as Java's `InetAddress` prints it, such as "/0:0:0:0:0:0:0:1"; "" for a client long gone."""
    if peer is None:
        return ""
    host = peer[0].partition("%")[0]
    if ":" in host:
        words = socket.inet_pton(socket.AF_INET6, host)
        host = ":".join(f"{high << 8 | low:x}" for high, low in zip(words[::2], words[1::2], strict=True))
    return f"/{host}"
