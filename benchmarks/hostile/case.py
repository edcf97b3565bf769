"""A hostile case: a state to bring a broker into, and the requests that one client then sends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from benchmarks import wire
from benchmarks.peers import Settings
from minibroker_protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.broker.socket_client import SocketClient

Address = tuple[str, int]
TIMEOUT_S: Final = 150.0
"""The time limit of one response."""
TOPIC: Final = 2
"""The resource type of a topic in DescribeConfigs, AlterConfigs and ACLs."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request in one version."""

    request: Any
    version: int


@dataclass(frozen=True, slots=True)
class Attack:
    """The requests that are sent while the probe runs.

    Attributes:
        asks: The requests that each connection sends without waiting for responses.
        frames: Further requests as bytes with their length prefixes, which no encoder creates.
        connections: The number of connections that send all requests.
        is_answered: Whether to wait for all responses. Otherwise the probe runs for half a second.
        at: "" for the plain listener, "sasl" for the listener that requires a login, or "control" for the control
            plane, whose response ends with the connection.
    """

    asks: tuple[Ask, ...] = ()
    frames: tuple[bytes, ...] = ()
    connections: int = 1
    is_answered: bool = True
    at: str = ""


class Target:
    """A broker that a case prepares before anything is measured.

    Args:
        address: The address of its plain listener.
        tag: The prefix of all names that the case creates.
        control: The address of its control plane, or None without one.
    """

    def __init__(self, address: Address, tag: str, control: Address | None = None) -> None:
        self.address = address
        self.tag = tag
        self.control = control
        self._client = SocketClient(address)
        self._client.socket.settimeout(TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.socket.close()

    def ask(self, request: Any, version: int) -> Any:
        """Return the response to one request."""
        return self._client.ask(request, version)

    def ask_many(self, asks: list[Ask], depth: int = 200) -> list[Any]:
        """Return the responses to many requests, sent `depth` at a time."""
        responses: list[Any] = []
        for begin in range(0, len(asks), depth):
            part = asks[begin : begin + depth]
            for each in part:
                self._client.send(each.request, each.version)
            responses += [self._client.receive()[1] for _ in part]
        return responses

    def topics(self, count: int, partitions: int = 1, configs: Mapping[str, str] | None = None) -> list[str]:
        """Create topics, and return their names once all partitions have leaders."""
        names = self.names(count)
        chosen = [CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()]
        for begin in range(0, count, 1_000):
            creatable = [
                CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=chosen)
                for name in names[begin : begin + 1_000]
            ]
            response = self.ask(CreateTopicsRequest(topics=creatable, timeout_ms=60_000), 7)
            if failed := [topic for topic in response.topics if topic.error_code]:
                raise wire.WireError(f"CreateTopics: {failed[0].error_code} {failed[0].error_message}")
        with wire.Connection(self.address, timeout=TIMEOUT_S) as connection:
            connection.await_partitions(names, count * partitions, timeout=TIMEOUT_S)
        return names

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic and return its name. `max_message_bytes="100"` sets max.message.bytes=100."""
        return self.topics(1, partitions, {key.replace("_", "."): value for key, value in configs.items()})[0]

    def names(self, count: int) -> list[str]:
        """Return `count` unique names."""
        return [f"{self.tag}-{number:05}" for number in range(count)]


Make = Callable[[Target, int], Attack]
WATCHED: Final = Settings(is_watched=True)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Attributes:
        make: Prepares the broker with a given size, and returns the requests to send.
        size: The size in a standard run. A quick run uses a tenth.
        broker: The settings that the broker needs.
        alone: The reason why only minibroker is measured, or "".
    """

    name: str
    title: str
    make: Make
    size: int
    broker: Settings = WATCHED
    alone: str = ""


@dataclass(slots=True)
class Cases:
    """Collects the cases of a module."""

    found: list[Case] = field(default_factory=list)

    def case(self, title: str, size: int, **more: Any) -> Callable[[Make], Make]:
        """Add a function under its name, with dashes. `more` has fields of `Case`."""

        def add(make: Make) -> Make:
            name = getattr(make, "__name__").replace("_", "-")  # noqa: B009 - a Callable need not have a name
            self.found.append(Case(name, title, make, size, **more))
            return make

        return add


def sent(*asks: tuple[Any, int]) -> Attack:
    """Return an attack of these requests, each with its version."""
    return Attack(asks=tuple(Ask(request, version) for request, version in asks))
