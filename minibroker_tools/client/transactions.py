"""Lists, describes and aborts transactions, and adds transactions to a producer (KIP-98)."""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import describe_transactions as api
from minibroker_protocol.messages import transactions as requests
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_partition, find_leaders, group_by_leader, group_by_topic
from minibroker_tools.failures import ApiError, check, error_code, raise_if_failed

_TRANSACTION_KEY_TYPE: Final = 1
"""The key type of transactional ids in FindCoordinator."""

ProducerState = api.ProducerState
_LAST_ADD_VERSION, _LAST_END_VERSION = 3, 4
"""The last AddPartitionsToTxn version with one transaction per request, and the last EndTxn version that keeps the
producer epoch (KIP-890).
"""


class Listing(NamedTuple):
    """A transactional id from ListTransactions. `coordinator` is the node id of its coordinator."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Description(NamedTuple):
    """The current transaction of a transactional id. `coordinator` is the node id of its coordinator."""

    coordinator: int
    transaction: api.TransactionState

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that still await a marker, in order."""
        return sorted((topic.topic, index) for topic in self.transaction.topics for index in topic.partitions)


class Marker(NamedTuple):
    """An abort marker for one partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    def __str__(self) -> str:
        topic, index = self.partition
        return (
            f"AbortTransactionSpec(topicPartition={topic}-{index}, producerId={self.producer_id}, "
            f"producerEpoch={self.producer_epoch}, coordinatorEpoch={self.coordinator_epoch})"
        )


def list_transactions(
    cluster: Cluster, *, duration: int = -1, pattern: str | None = None, producer_ids: Sequence[int] = ()
) -> list[Listing]:
    """Return the transactional ids managed by all coordinators.

    Args:
        cluster: The cluster to query.
        duration: Include only transactions that have been open longer than this many milliseconds (KIP-994).
        pattern: Include only transactional ids that match this regular expression (KIP-1152).
        producer_ids: Include only transactions of these producer ids, or all transactions if empty.

    Raises:
        ApiError: A broker returned an error, such as UNSUPPORTED_VERSION for a filter that the broker does not
            support.
    """
    request = api.ListTransactionsRequest(
        state_filters=[],
        producer_id_filters=list(producer_ids),
        duration_filter=duration,
        transactional_id_pattern=pattern,
    )
    listings: list[Listing] = []
    for broker in cluster.brokers():
        version = cluster.node(broker.node_id).version_for(request)
        if duration >= 0 and version < 1:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The broker does not support the filter of durations")
        if pattern is not None and version < 2:  # noqa: PLR2004 - the version of KIP-1152
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The broker does not support patterns of transactional ids")
        response: api.ListTransactionsResponse = cluster.ask_with_retries(
            partial(cluster.node, broker.node_id), request
        )
        listings += [
            Listing(info.transactional_id, broker.node_id, info.producer_id, info.transaction_state)
            for info in response.transaction_states
        ]
    return listings


def describe_transaction(cluster: Cluster, transactional_id: str) -> Description:
    """Return the current transaction of a transactional id.

    Raises:
        ApiError: The coordinator returned an error, such as TRANSACTIONAL_ID_NOT_FOUND for an unknown id.
    """
    request = api.DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def ask() -> Description:
        node = cluster.coordinator_node(transactional_id, _TRANSACTION_KEY_TYPE).node_id
        response: api.DescribeTransactionsResponse = cluster.node(node).ask(request)
        (transaction,) = response.transaction_states
        check(transaction.error_code, _description_failure(transactional_id, error_code(transaction.error_code)))
        return Description(node, transaction)

    return cluster.retry(ask)


def _description_failure(transactional_id: str, code: ErrorCode) -> str:
    """Return the error message of Kafka's `DescribeTransactionsHandler`."""
    reasons = {
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "because the ID could not be found",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "due to authorization failure",
    }
    reason = reasons.get(code, "due to unexpected error")
    return f"DescribeTransactions request for transactionalId `{transactional_id}` failed {reason}"


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], node: int | None = None
) -> dict[TopicPartition, list[ProducerState]]:
    """Return the active producers of each partition.

    Args:
        cluster: The cluster of the partitions.
        partitions: The partitions to describe.
        node: The broker to query, or None to query the leader of each partition.

    Raises:
        ApiError: A partition cannot be described.
    """
    targets = sorted(set(partitions))
    groups, errors = group_by_leader(cluster, targets) if node is None else ({node: targets}, {})
    for error in errors.values():
        raise error
    producers_by_partition: dict[TopicPartition, list[ProducerState]] = {}
    for leader, group in groups.items():
        topics = group_by_topic(group).items()
        request = api.DescribeProducersRequest(
            topics=[api.TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics]
        )
        response: api.DescribeProducersResponse = cluster.node(leader).ask(request)
        for key, partition in by_partition(response.topics).items():
            producers_by_partition[key] = list(raise_if_failed(partition).active_producers)
    return producers_by_partition


def write_abort_marker(cluster: Cluster, marker: Marker) -> None:
    """Write an abort marker to a partition.

    Raises:
        ApiError: The partition does not exist, or its leader refused the marker.
    """
    topic, index = marker.partition
    leader = find_leaders(cluster, [marker.partition]).get(marker.partition)
    if leader is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    request = requests.WriteTxnMarkersRequest(
        markers=[
            requests.WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=False,
                topics=[requests.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
                coordinator_epoch=marker.coordinator_epoch,
            )
        ]
    )
    response: requests.WriteTxnMarkersResponse = cluster.node(leader).ask(request)
    (result,) = response.markers
    (outcome,) = result.topics[0].partitions
    check(outcome.error_code, _abort_failure(marker, error_code(outcome.error_code)))


def _abort_failure(marker: Marker, code: ErrorCode) -> str:
    """Return the error message of Kafka's `AbortTransactionHandler`."""
    reasons = {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "due to cluster authorization error",
        ErrorCode.INVALID_PRODUCER_EPOCH: "due an invalid producer epoch",
        ErrorCode.TRANSACTION_COORDINATOR_FENCED: f"since the provided coordinator epoch {marker.coordinator_epoch} "
        "has been fenced by the active coordinator",
    }
    reason = reasons.get(code) or f"due to unexpected error: {ApiError(code).message}"
    return f"WriteTxnMarkers request with {marker} failed {reason}"


class Transactions:
    """The successive transactions of one transactional id. Each transaction begins with its first batch."""

    last_produce_version: Final = 11
    """The last Produce version with which the client must add partitions to transactions itself (KIP-890)."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        """Get a producer id, and fence other producers with the same transactional id.

        Args:
            cluster: The cluster to send to.
            transactional_id: The transactional id.
            timeout_ms: The time in milliseconds after which the coordinator aborts an open transaction.

        Raises:
            ApiError: The coordinator returned an error.
        """
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._start_s = 0.0
        request = requests.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self._ask(request, last=None)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    def add(self, topic: str, partition: int, records: int) -> tuple[int, int, int]:
        """Add a batch with this many records to the transaction.

        Returns:
            The producer id, the producer epoch and the base sequence for the header of the batch.

        Raises:
            ApiError: The coordinator refused the partition.
        """
        topic_partition = (topic, partition)
        if not self._added:
            self._start_s = time.monotonic()
        if topic_partition not in self._added:
            self._ask(
                requests.AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self._id,
                    v3_and_below_producer_epoch=self._epoch,
                    v3_and_below_topics=[requests.AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
                ),
                last=_LAST_ADD_VERSION,
            )
            self._added.add(topic_partition)
        first = self._sequences.get(topic_partition, 0)
        self._sequences[topic_partition] = (first + records) % 2**31
        return self._id, self._epoch, first

    @property
    def seconds(self) -> float:
        """The age of the transaction in seconds, or 0 before its first batch."""
        return time.monotonic() - self._start_s if self._added else 0.0

    def end(self, *, committed: bool) -> None:
        """Commit or abort the transaction, if it has begun.

        Raises:
            ApiError: The coordinator returned an error.
        """
        if not self._added:
            return
        request = requests.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        self._ask(request, last=_LAST_END_VERSION)
        self._added.clear()

    def _ask(self, request: object, *, last: int | None) -> Any:
        def send() -> Any:
            connection = self._cluster.coordinator(self.transactional_id, _TRANSACTION_KEY_TYPE)
            version = connection.version_for(request)
            response = raise_if_failed(connection.ask(request, version=version if last is None else min(version, last)))
            if isinstance(response, requests.AddPartitionsToTxnResponse):
                check(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
            return response

        self._cluster.restart_timeout()
        return self._cluster.retry(send)
