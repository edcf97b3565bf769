"""Connections to the brokers of a cluster, with retries until `default.api.timeout.ms` expires."""

import socket
import time
from collections.abc import Callable, Iterable, Sequence
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
from minibroker_tools.failures import ApiError, TimedOutError, ToolError, UnreachableError, check_all, raise_if_failed
from minibroker_tools.output import log

T = TypeVar("T")

BROKERS, CONTROLLERS = 1, 2
"""The endpoint types of DescribeCluster (KIP-919)."""
BACKOFF_S: Final = 0.1
"""The pause before a retry, in seconds."""
_TRANSIENT_ERRORS: Final = frozenset(
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
"""Errors after which the same request can succeed a moment later."""


class Cluster:
    """The cluster behind the bootstrap servers, as a context manager that closes its connections."""

    def __init__(self, settings: Settings, *, timeout: float | None = None) -> None:
        """Prepare the cluster without connecting.

        Args:
            settings: The client's properties and bootstrap servers.
            timeout: A timeout in seconds to use instead of `default.api.timeout.ms`.
        """
        self.settings = settings
        self._timeout = settings.milliseconds("default.api.timeout.ms") if timeout is None else timeout
        self._deadline = time.monotonic() + self._timeout
        self._any: Connection | None = None
        self._connections: dict[int, Connection] = {}
        self._brokers: dict[int, MetadataResponseBroker] = {}
        #: The id of the controller in the latest metadata, or -1 for none.
        self.controller_id = -1
        self.cluster_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._list_connections():
            connection.close()

    def any(self) -> Connection:
        """Return a connection to one of the bootstrap servers.

        Raises:
            UnreachableError: The timeout expired, or no host name could be resolved.
        """
        if self._any is None:
            self._any = self._connect()
        return self._any

    def ask(self, request: object) -> Any:
        """Send a request to any broker and return its response."""
        return self.any().ask(request)

    def node(self, node_id: int) -> Connection:
        """Return a connection to the broker with this id.

        Raises:
            UnreachableError: The broker cannot be reached.
            ToolError: No broker has this id.
        """
        connection = self._connections.get(node_id)
        if connection is not None:
            return connection
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
            self.refresh()
        if node_id not in self._brokers:
            raise ToolError(f"Timed out waiting for a node assignment: no broker has the id {node_id}")
        return self._brokers[node_id]

    def brokers(self) -> list[MetadataResponseBroker]:
        """Return the brokers, sorted by id."""
        if not self._brokers:
            self.refresh()
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]

    def metadata(self, topics: Iterable[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """Return the metadata of these topics, or of all topics if None. Each topic can have its own error."""
        requested_topics = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=requested_topics, allow_auto_topic_creation=create)
        response: MetadataResponse = raise_if_failed(self.ask(request))
        self._brokers = {broker.node_id: broker for broker in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        return response

    def refresh(self) -> None:
        """Fetch the brokers, the controller and the cluster id. A KRaft controller returns controllers as brokers."""
        connection = self.any()
        if ApiKey.METADATA in connection.versions or ApiKey.DESCRIBE_CLUSTER not in connection.versions:
            self.metadata([])
            return
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS)
        response: DescribeClusterResponse = raise_if_failed(connection.ask(request))
        self._brokers = {
            node.broker_id: MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port)
            for node in response.brokers
        }
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id

    def topics(self, names: Sequence[str]) -> list[MetadataResponseTopic]:
        """Return the topics with these names, sorted by name.

        Raises:
            ApiError: A topic does not exist.
        """
        topics = self.metadata(names).topics
        check_all(topics)
        return sorted(topics, key=lambda topic: topic.name or "")

    def ask_controller(self, request: object) -> Any:
        """Send a request to the controller in Metadata. In KRaft this can be any broker, which forwards the request."""
        return self.controller().ask(request)

    def controller(self) -> Connection:
        """Return a connection to the controller, or to any broker if Metadata gives no controller."""
        if not self._brokers:
            self.refresh()
        return self.node(self.controller_id) if self.controller_id in self._brokers else self.any()

    def coordinator(self, key: str, key_type: int = 0) -> Connection:
        """Return a connection to the coordinator of a group, or of a transactional id if `key_type` is 1."""
        return self.node(self.coordinator_node(key, key_type).node_id)

    def coordinator_node(self, key: str, key_type: int = 0) -> MetadataResponseBroker:
        """Return the broker that coordinates a group, or a transactional id if `key_type` is 1.

        Raises:
            ApiError: The coordinator could not be found.
        """

        def find() -> MetadataResponseBroker:
            request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
            response = self.any().ask(request)
            coordinator = raise_if_failed(response.coordinators[0] if response.coordinators else response)
            if coordinator.node_id not in self._brokers:
                self.refresh()
            return self._broker(coordinator.node_id)

        return self.retry(find)

    def retry(self, ask: Callable[[], T]) -> T:
        """Return the result of `ask`, retrying transient errors until the timeout expires."""
        while True:
            try:
                return ask()
            except ApiError as error:
                if error.code not in _TRANSIENT_ERRORS or time.monotonic() > self._deadline:
                    raise
            time.sleep(BACKOFF_S)

    def ask_with_retries(self, find: Callable[[], Connection], request: object) -> Any:
        """Send a request over the connection that `find` returns, and return the response. Retry transient errors.

        Raises:
            ApiError: The error is not transient, or the timeout expired.
        """
        return self.retry(lambda: raise_if_failed(find().ask(request)))

    def restart_timeout(self) -> None:
        """Restart `default.api.timeout.ms`. Long-running tools do so before each request."""
        self._deadline = time.monotonic() + self._timeout
        for connection in self._list_connections():
            connection.extend(self._deadline)

    def _list_connections(self) -> set[Connection]:
        return {*self._connections.values(), *([self._any] if self._any else [])}

    def _connect(self) -> Connection:
        warned = False
        while True:
            failures: list[str] = []
            unknown = 0
            for address in self.settings.addresses:
                try:
                    return Connection(address, self.settings, self._deadline)
                except UnreachableError as error:
                    failures.append(error.message)
                except OSError as error:
                    unknown += isinstance(error, socket.gaierror)
                    failures.append(f"{address[0]}:{address[1]}: {error.strerror or error}")
            tried = "; ".join(failures)
            if unknown == len(self.settings.addresses):
                raise UnreachableError(f"No resolvable bootstrap urls given in bootstrap.servers: {tried}")
            if time.monotonic() + BACKOFF_S > self._deadline:
                raise TimedOutError(f"Timed out waiting for a node assignment after {self._timeout:g} s: {tried}")
            if not warned:
                log("WARN", f"{tried}. Broker may not be available; trying again", "minibroker_tools")
                warned = True
            time.sleep(BACKOFF_S)
