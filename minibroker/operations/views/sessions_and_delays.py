"""Fetch sessions and delayed requests for the lab's page."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from minibroker.cluster.fetch_sessions import FetchSession
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import Steps
from minibroker.operations.waiting import run_in_slices
from minibroker.server.node_listener import NodeListener
from minibroker.server.services import Services

MAX_ELEMENTS: Final = 1_000
_MAX_PARTITIONS: Final = 200


@dataclass(frozen=True, slots=True)
class CachedPartitionView:
    """A partition of a fetch session.

    Attributes:
        topic: the topic's name, or None if the topic was deleted.
        fetch_offset: the next offset that the client will fetch, according to its last request.
    """

    topic: str | None
    partition: int
    fetch_offset: int


@dataclass(frozen=True, slots=True)
class FetchSessionView:
    """A fetch session (KIP-227). The time is in ms.

    Attributes:
        epoch: the expected epoch of the client's next request.
        partitions: the first 200 of `partition_count`, in the order in which they are served.
    """

    node: int
    id: int
    epoch: int
    last_used_ms: int
    partition_count: int
    partitions: tuple[CachedPartitionView, ...]


@dataclass(frozen=True, slots=True)
class DelayedView:
    """A request with a delayed response. Later requests on the same connection wait for it.

    Attributes:
        client: the client's address, "HOST:PORT".
        client_id: the client id, or None if the connection is muted or logs in with bare tokens.
        api: the name of the API, or None likewise.
        waits_for: a phrase such as "appends to orders-0: at least 1 byte, at most 500 ms".
    """

    node: int
    client: str
    client_id: str | None
    api: str | None
    version: int
    correlation_id: int
    waits_for: str


async def fetch_sessions(services: Services) -> tuple[FetchSessionView, ...]:
    """Return the fetch sessions of all brokers, at most 1,000, the least recently used first."""
    return await run_in_slices(services, _collect_sessions(services))


def _collect_sessions(services: Services) -> Steps[tuple[FetchSessionView, ...]]:
    views: list[FetchSessionView] = []
    for node in list(services.core.cluster.nodes.values()):
        for session in node.fetch_sessions:
            if len(views) == MAX_ELEMENTS:
                return tuple(views)
            views.append(_describe_session(services, node, session))
            yield
    return tuple(views)


def _describe_session(services: Services, node: Node, session: FetchSession) -> FetchSessionView:
    partitions = [
        CachedPartitionView(
            key if isinstance(key, str) else _find_topic_name(services, key), index, cached.request.fetch_offset
        )
        for (key, index), cached in islice(session.partitions.items(), _MAX_PARTITIONS)
    ]
    return FetchSessionView(
        node=node.id,
        id=session.id,
        epoch=session.epoch,
        last_used_ms=session.last_used_ms,
        partition_count=len(session.partitions),
        partitions=tuple(partitions),
    )


def _find_topic_name(services: Services, topic_id: bytes) -> str | None:
    topic = services.core.topics.with_id(topic_id)
    return None if topic is None else topic.name


async def delayed_requests(services: Services) -> tuple[DelayedView, ...]:
    """Return the delayed requests of all brokers, at most 1,000."""
    views: list[DelayedView] = []
    for node in services.core.cluster.nodes.values():
        listener = node.listener
        if not isinstance(listener, NodeListener):
            continue
        for connection in listener.connections:
            waiting = connection.waiting
            if waiting is None or len(views) == MAX_ELEMENTS:
                continue
            answer, call = waiting.answer, waiting.answer.call
            views.append(
                DelayedView(
                    node=node.id,
                    client=connection.client,
                    client_id=None if call is None else call.client_id,
                    api=None if call is None else call.endpoint.api,
                    version=0 if call is None else call.api_version,
                    correlation_id=answer.correlation_id,
                    waits_for=waiting.delayed.waits_for(),
                )
            )
    return tuple(views)
