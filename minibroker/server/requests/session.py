"""The session of a connection: its principal, its client's host, and the advertised address of its node."""

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
        services: The services of the broker.
        node: The node whose listener accepted the connection.
        advertised: The (host, port) at which this client can reach `node`.
        client_host: The client's address in Kafka's format.
        client_port: The client's port.
        calls: The `Call` of each API that the connection uses, by the first four bytes of its requests.
        principal: The authenticated principal.
        listener: The name of the listener.
        protocol: The security protocol of the listener.
        authentication: The SASL authentication, or None if the listener requires none.
        muted_ms: The time for which nothing is read from a client over its quota, in milliseconds.
        origin: The connection in the recording (`inspection.recording.BrokerConnection`), or None before the first
            recorded request.
        software: The client's name and version, as sent with ApiVersions (v3).
        early_joiner: The state of a client that joins groups early, or None.
        waited_fetches: The number of fetches that have waited since the last records. It is None, and fetches wait
            for their full time, until the connection sends ApiVersions or gets records.
        keep: Returns a view of a frame's bytes that stays valid after the wake-up in which the frame arrived.
        ends: The callbacks to call when the connection is closed.
    """

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
        self.keep: Callable[[memoryview], memoryview] = _copy_frame
        self.ends: tuple[Callable[[], None], ...] = ()

    def close(self) -> None:
        """Call the `ends` callbacks, because the connection is closed."""
        ends, self.ends = self.ends, ()
        for end in ends:
            end()


def _copy_frame(frame: memoryview) -> memoryview:
    return memoryview(bytearray(frame))


def format_kafka_address(peer: tuple[str, int] | tuple[str, int, int, int] | None) -> str:
    """Return an address in the format of Java's `InetAddress`, such as "/0:0:0:0:0:0:0:1", or "" if it is unknown."""
    if peer is None:
        return ""
    host = peer[0].partition("%")[0]
    if ":" in host:
        words = socket.inet_pton(socket.AF_INET6, host)
        host = ":".join(f"{high << 8 | low:x}" for high, low in zip(words[::2], words[1::2], strict=True))
    return f"/{host}"
