"""The transactions of a producer (KIP-98), in the versions that all brokers since 0.11 have."""

import time
from typing import Any, Final, TypedDict

from minibroker_protocol.messages import add_partitions_to_txn as adds
from minibroker_protocol.messages import end_txn as ends
from minibroker_protocol.messages import init_producer_id as inits
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.failures import check

_TRANSACTIONAL: Final = 1
_LAST_ADD, _LAST_END = 3, 4
"""The last versions that name one transaction, and that keep the producer's epoch (KIP-890)."""


class Numbers(TypedDict):
    """The fields that a batch of a transaction has in its header."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool


class Transactions:
    """The transactions of one transactional id, one after another. Each begins with its first batch."""

    last_produce: Final = 11
    """The last version of Produce before which a client adds the partitions itself (KIP-890)."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        """Fence other producers of the id. `timeout_ms`: a transaction that takes longer is aborted. ApiError."""
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._began = 0.0
        request = inits.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self._ask(request, last=None)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    def add(self, topic: str, partition: int, records: int) -> Numbers:
        """Take a batch of so many records into the transaction. ApiError."""
        place = (topic, partition)
        if not self._added:
            self._began = time.monotonic()
        if place not in self._added:
            self._ask(
                adds.AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self._id,
                    v3_and_below_producer_epoch=self._epoch,
                    v3_and_below_topics=[adds.AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
                ),
                last=_LAST_ADD,
            )
            self._added.add(place)
        first = self._sequences.get(place, 0)
        self._sequences[place] = (first + records) % 2**31
        return {
            "producer_id": self._id,
            "producer_epoch": self._epoch,
            "base_sequence": first,
            "is_transactional": True,
        }

    @property
    def seconds(self) -> float:
        """The age of the transaction; 0 before its first batch."""
        return time.monotonic() - self._began if self._added else 0.0

    def end(self, *, committed: bool) -> None:
        """Commit the transaction or abort it; nothing without a batch. ApiError."""
        if not self._added:
            return
        request = ends.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        self._ask(request, last=_LAST_END)
        self._added.clear()

    def _ask(self, request: object, *, last: int | None) -> Any:
        def once() -> Any:
            connection = self._cluster.coordinator(self.transactional_id, _TRANSACTIONAL)
            version = connection.version_for(request)
            response = connection.ask(request, version=version if last is None else min(version, last))
            check(response.error_code)
            if isinstance(response, adds.AddPartitionsToTxnResponse):
                check(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
            return response

        self._cluster.go_on()
        return self._cluster.retried(once)
