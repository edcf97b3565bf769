"""A cluster: which broker to ask, connections to them, and retries until `default.api.timeout.ms` is over."""

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from minibroker_tools.client.connection import Connection
from minibroker_tools.client.settings import Settings
from minibroker_tools.failures import ApiError, TimedOutError, ToolError, UnreachableError, check_all, checked
from minibroker_tools.output import log

T = TypeVar("T")

BROKERS, CONTROLLERS = 1, 2
"""The types of endpoints in DescribeCluster (KIP-919)."""
_BACKOFF_S: Final = 0.1
_PASSING: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Errors after which the same request may succeed a moment later."""


class Cluster:
    """The brokers behind the bootstrap servers. Use it in a `with` statement."""

    def __init__(self, settings: Settings, *, timeout: float | None = None) -> None:
        """`timeout` in seconds is in the place of `default.api.timeout.ms`."""
        self.settings = settings
        self._timeout = settings.milliseconds("default.api.timeout.ms") if timeout is None else timeout
        self._deadline = time.monotonic() + self._timeout
        self._any: Connection | None = None
        self._connections: dict[int, Connection] = {}
        self._brokers: dict[int, MetadataResponseBroker] = {}
        self._controller_id = -1
        self.cluster_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._open_ones():
            connection.close()

    def any(self) -> Connection:
        """A connection to one of the bootstrap servers. UnreachableError once the time is over."""
        if self._any is None:
            self._any = self._connect()
        return self._any

    def ask(self, request: object) -> Any:
        """Ask any broker."""
        return self.any().ask(request)

    def node(self, node_id: int) -> Connection:
        """A connection to a broker by its id. UnreachableError, ToolError for an id that no broker has."""
        known = self._connections.get(node_id)
        if known is not None:
            return known
        broker = self._broker(node_id)
        address = (broker.host, broker.port)
        if self._any is not None and self._any.address == address:
            connection = self._any
        else:
            try:
                connection = Connection(address, self.settings, self._deadline)
            except OSError as error:
                kind = TimedOutError if isinstance(error, TimeoutError) else UnreachableError
                raise kind(
                    f"Broker {node_id} advertises {broker.host}:{broker.port}, which cannot be reached: {error}"
                ) from None
        self._connections[node_id] = connection
        return connection

    def _broker(self, node_id: int) -> MetadataResponseBroker:
        if node_id not in self._brokers:
            self.look()
        broker = self._brokers.get(node_id)
        if broker is None:
            raise ToolError(f"Timed out waiting for a node assignment: no broker has the id {node_id}")
        return broker

    def brokers(self) -> list[MetadataResponseBroker]:
        """The brokers, by their ids."""
        if not self._brokers:
            self.look()
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]

    @property
    def controller_id(self) -> int:
        """The broker that the last metadata named as the controller, -1 for none."""
        return self._controller_id

    def metadata(self, topics: Iterable[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """The topics of these names, all for None; an answer may have an error of its own."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create)
        response: MetadataResponse = checked(self.ask(request))
        self._brokers = {broker.node_id: broker for broker in response.brokers}
        self._controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        return response

    def look(self) -> None:
        """Learn the brokers, the controller and the cluster's id; from a controller of KRaft, the controllers."""
        connection = self.any()
        if ApiKey.METADATA in connection.versions or ApiKey.DESCRIBE_CLUSTER not in connection.versions:
            self.metadata([])
            return
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)
        response: DescribeClusterResponse = checked(connection.ask(request))
        self._brokers = {
            node.broker_id: MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port)
            for node in response.brokers
        }
        self._controller_id = response.controller_id
        self.cluster_id = response.cluster_id

    def topics(self, names: Sequence[str]) -> list[MetadataResponseTopic]:
        """The topics of these names. ApiError for one that the cluster lacks."""
        found = self.metadata(names).topics
        check_all(found)
        return sorted(found, key=lambda topic: topic.name or "")

    def ask_controller(self, request: object) -> Any:
        """Ask the broker that Metadata names as the controller; in KRaft it may be any broker, which forwards."""
        return self.controller().ask(request)

    def controller(self) -> Connection:
        """Return a connection to the controller, or to any broker where Metadata names none."""
        if not self._brokers:
            self.look()
        return self.node(self._controller_id) if self._controller_id in self._brokers else self.any()

    def coordinator(self, key: str, key_type: int = 0) -> Connection:
        """A connection to the coordinator of a group, or of a transactional id for `key_type` 1."""
        return self.node(self.coordinator_node(key, key_type).node_id)

    def coordinator_node(self, key: str, key_type: int = 0) -> MetadataResponseBroker:
        """The broker that coordinates a group, or a transactional id for `key_type` 1. ApiError."""

        def find() -> MetadataResponseBroker:
            request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
            response = self.any().ask(request)
            found = checked(response.coordinators[0] if response.coordinators else response)
            if found.node_id not in self._brokers:
                self.look()
            return self._broker(found.node_id)

        return self.retried(find)

    def retried(self, ask: Callable[[], T]) -> T:
        """The result of `ask`; errors that pass are retried until the time is over."""
        while True:
            try:
                return ask()
            except ApiError as error:
                if error.code not in _PASSING or time.monotonic() > self._deadline:
                    raise
            time.sleep(_BACKOFF_S)

    def ask_until_settled(self, find: Callable[[], Connection], request: object) -> Any:
        """Return the response of the connection that `find` gives. ApiError for one that does not pass in time."""
        return self.retried(lambda: checked(find().ask(request)))

    def go_on(self) -> None:
        """Begin `default.api.timeout.ms` again: a tool that runs long has succeeded so far."""
        self._deadline = time.monotonic() + self._timeout
        for connection in self._open_ones():
            connection.extend(self._deadline)

    def _open_ones(self) -> set[Connection]:
        return {*self._connections.values(), *([self._any] if self._any else [])}

    def _connect(self) -> Connection:
        warned = False
        while True:
            failures: list[str] = []
            unknown = 0
            for address in self.settings.addresses:
                try:
                    return Connection(address, self.settings, self._deadline)
                except socket.gaierror as error:
                    unknown += 1
                    failures.append(f"{address[0]}:{address[1]}: {error.strerror}")
                except (OSError, UnreachableError) as error:
                    failures.append(_reason(address, error))
            tried = "; ".join(failures)
            if unknown == len(self.settings.addresses):
                raise UnreachableError(f"No resolvable bootstrap urls given in bootstrap.servers: {tried}")
            if time.monotonic() + _BACKOFF_S > self._deadline:
                raise TimedOutError(f"Timed out waiting for a node assignment after {self._timeout:g} s: {tried}")
            if not warned:
                log("WARN", f"{tried}. Broker may not be available; trying again", "minibroker_tools")
                warned = True
            time.sleep(_BACKOFF_S)


def _reason(address: tuple[str, int], error: Exception) -> str:
    if isinstance(error, UnreachableError):
        return error.message
    strerror = error.strerror if isinstance(error, OSError) else None
    return f"{address[0]}:{address[1]}: {strerror or error or 'no answer in time'}"
