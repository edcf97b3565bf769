"""What a handler has to do with the way of its request: its surroundings, and two answers that are none."""

from collections.abc import Callable
from typing import Any, NamedTuple

from minibroker.cluster import Node
from minibroker.state import BrokerState


class Call(NamedTuple):
    """One request's surroundings, as handlers see them.

    Attributes:
        advertised: (host, port) at which this client should find the broker.
        client_host: where the client is, as Kafka writes addresses.
        node: the one that the client has connected to.
    """

    state: BrokerState
    api_version: int
    client_id: str | None
    advertised: tuple[str, int]
    client_host: str
    node: Node

    def address_of(self, node: Node) -> tuple[str, int]:
        """(host, port) at which this client should find a node."""
        return self.advertised if node is self.node else node.address(self.advertised)


class Parked:
    """An answer that waits for something; the connection serves no further request until then, as Kafka's does.

    A handler returns one and calls `deliver` with the response later, once. `cancel` is called when the client has
    gone.
    """

    deliver: Callable[[Any], None]

    def cancel(self) -> None:
        """Forget the request."""
        raise NotImplementedError


class UnservedRequestError(Exception):
    """A request that has no answer in the protocol.

    An unknown API or version. The connection closes, as Kafka's does.
    """
