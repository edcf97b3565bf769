"""Replicas, fetch sessions, delayed requests and transactions, as a page shows them."""

from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Final

from minibroker.cluster.fetch_sessions import FetchSession
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.transactions.transaction import Transaction
from minibroker.operations.views.groups import TRANSACTION, StateMachine
from minibroker.operations.waiting import run_in_slices
from minibroker.server.node_listener import NodeListener
from minibroker.server.services import Services
from minibroker_protocol.internal_topics import TRANSACTION_STATE
from minibroker_storage.data_directory.names import TopicPartition

_MAX_PARTITIONS: Final = 200
"""Maximum number of partitions."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker. `leads` is the number of partitions it leads, not counting those of internal topics."""

    id: int
    is_up: bool
    leads: int


@dataclass(frozen=True, slots=True)
class ReplicasRow:
    """A partition. `leader` is None if the partition has no leader."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_under_min_isr: bool


@dataclass(frozen=True, slots=True)
class ReplicasView:
    """All brokers, and the first 200 of `partition_count` partitions.

    Partitions with out-of-sync replicas come first. Partitions of internal topics are excluded.
    """

    brokers: tuple[BrokerRow, ...]
    partition_count: int
    partitions: tuple[ReplicasRow, ...]


async def replicas_view(services: Services) -> ReplicasView:
    """Return the brokers and their partitions."""
    leads: dict[int, int] = {}
    in_sync: list[ReplicasRow] = []
    out_of_sync: list[ReplicasRow] = []
    count = 0
    for topic in [topic for topic in services.core.topics if not topic.is_internal]:
        for partition in topic.partitions:
            leader = None if partition.leader is None else partition.leader.id
            count += 1
            if leader is not None:
                leads[leader] = leads.get(leader, 0) + 1
            rows = in_sync if leader is not None and len(partition.isr) == len(partition.replicas) else out_of_sync
            if len(rows) < _MAX_PARTITIONS:
                epoch, is_under_min_isr = partition.leader_epoch, partition.is_under_min_isr
                replicas, isr = tuple(partition.replicas), tuple(partition.isr)
                rows.append(ReplicasRow(topic.name, partition.index, leader, epoch, replicas, isr, is_under_min_isr))
    nodes = sorted(services.core.cluster.nodes.values(), key=lambda node: node.id)
    brokers = tuple(BrokerRow(node.id, node.is_up, leads.get(node.id, 0)) for node in nodes)
    return ReplicasView(brokers, count, tuple([*out_of_sync, *in_sync][:_MAX_PARTITIONS]))


MAX_ELEMENTS: Final = 1_000


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


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transactional id with its latest transaction.

    Attributes:
        state: one of the states in `TRANSACTION`.
        partitions: the partitions that still need a marker, at most 1,000 of `partition_count`.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partition_count: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """The first 1,000 transactional ids in sorted order.

    Attributes:
        states: all states of a transaction, each with its possible successors.
        is_loading: whether more transactional ids are still being loaded from `__transaction_state`.
    """

    transactions: tuple[TransactionView, ...]
    states: StateMachine
    is_loading: bool


async def transaction_page(services: Services) -> TransactionPage:
    """Return at most 1,000 transactional ids."""
    if services.core.topics.get(TRANSACTION_STATE) is None:  # Without this topic, no transaction has ever existed.
        return TransactionPage((), TRANSACTION, is_loading=False)
    services.transactions.store.load_all()
    store = services.transactions.store
    lowest = nsmallest(MAX_ELEMENTS, store.all(), key=lambda transaction: transaction.transactional_id)
    return TransactionPage(tuple(map(_describe_transaction, lowest)), TRANSACTION, is_loading=store.is_loading)


def _describe_transaction(transaction: Transaction) -> TransactionView:
    return TransactionView(
        transactional_id=transaction.transactional_id,
        state=transaction.state.wire_name,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partition_count=len(transaction.partitions),
        partitions=tuple(nsmallest(MAX_ELEMENTS, transaction.partitions)),
    )
