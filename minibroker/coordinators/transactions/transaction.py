"""One transactional id: its states, the transitions between them (Kafka's `TransactionMetadata`), and its markers.

A transaction is immutable. A transition returns a new transaction, which takes effect after it is in the log. In the
second version of transactions (KIP-890), the end of a transaction raises the producer's epoch. A late batch therefore
cannot become part of the next transaction.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker_protocol.coordinator_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import (
    CONTROL_KEY,
    MAGIC_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    read_header,
)
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.errors import InvalidProducerEpochError
from minibroker_storage.producer_snapshot import ProducerStateEntry

_LAST_EPOCH: Final = 32_766
"""The highest epoch that a producer can get. The epoch above is reserved for fencing."""
_EPOCH_OF_FENCING: Final = _LAST_EPOCH + 1
"""The highest possible epoch. No producer gets it, so that a producer in its last epoch can be fenced, too."""
_KEY_VERSION: Final = 0
_LAST_VALUE_VERSION: Final = 1
NO_TIMEOUT_MS: Final = (1 << 31) - 1
"""The timeout of a transaction that never times out."""
RAISES_EPOCHS: Final = 2
"""The level of `transaction.version` from which the end of a transaction raises the producer's epoch."""


class TransactionState(IntEnum):
    """Kafka's `TransactionState`, with the numbers used in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name in ListTransactions and DescribeTransactions."""
        return _WIRE_NAMES[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided, but not all markers are written."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def may_expire(self) -> bool:
        """Whether the transactional id can expire without losing a transaction."""
        return self in {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


_WIRE_NAMES: Final = {state: state.name.title().replace("_", "") for state in TransactionState}
STATES_BY_NAME: Final = {name: state for state, name in _WIRE_NAMES.items()}


_COMMITS: Final = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether each ending or ended state belongs to a commit."""


class Transaction(NamedTuple):
    """A transactional id with its latest transaction.

    Attributes:
        last_producer_id: The producer id before the last transition.
        last_producer_epoch: The epoch before the last InitProducerId, or -1 if another producer sent that request.
        partitions: The partitions that still need a marker.
        start_ms: The time at which the latest transaction began, or -1 if unknown. EMPTY records have no start time.
        updated_ms: The time of the last transition.
        next_producer_id: The producer id to use after the end, if the current id has no epoch left.
        client_version: `RAISES_EPOCHS` if the producer supports raised epochs; Kafka's `clientTransactionVersion`.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    updated_ms: int
    last_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    def is_timed_out(self, now_ms: int) -> bool:
        """Return whether an open transaction has exceeded its timeout."""
        has_timeout = self.timeout_ms != NO_TIMEOUT_MS
        return has_timeout and self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    def membership_error(self, partition: TopicPartition) -> ErrorCode:
        """Return NONE for a partition of the transaction, or TRANSACTION_ABORTABLE."""
        return ErrorCode.NONE if partition in self.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def is_end_retry(self, producer_id: int, epoch: int, *, raises_epoch: bool) -> bool:
        """Return whether a producer repeats the request that ended the transaction, perhaps after losing the response.

        If that request raised the epoch (KIP-890), the producer still sends the previous epoch, perhaps with the
        previous producer id.
        """
        if not raises_epoch:
            return self.state in _COMMITS and (producer_id, epoch) == (self.producer_id, self.producer_epoch)
        had_no_epoch_left = (producer_id, epoch, self.producer_epoch) == (self.last_producer_id, _LAST_EPOCH, 0)
        return had_no_epoch_left or (producer_id, epoch + 1) == (self.producer_id, self.producer_epoch)

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> "Transaction | None":
        """Return an empty transaction in the producer's next epoch, or None if the producer is fenced (KIP-360).

        A producer that sends its epoch must send the current or the previous epoch. If it sends the previous
        epoch, it repeats a request after losing the response.
        """
        current = self.producer_epoch
        if expected_epoch is None:
            epoch, last_epoch = current + 1, NO_PRODUCER_EPOCH
        # An epoch of -1 means that the transactional id has expired since (`transactional.id.expiration.ms`), so any
        # expected epoch is accepted.
        elif current in {NO_PRODUCER_EPOCH, expected_epoch}:
            epoch, last_epoch = current + 1, current
        # This is a retry after a lost response. Raising the epoch again would fence the producer itself.
        elif expected_epoch == self.last_producer_epoch:
            epoch, last_epoch = current, self.last_producer_epoch
        else:
            return None
        return self._reset(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_producer_id(self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_epoch: bool) -> "Transaction":
        """Return an empty transaction with another producer id, in epoch 0.

        If `keeps_epoch` is true, the old epoch is recorded as the last epoch, so that the producer can repeat its
        request.
        """
        last_epoch = self.producer_epoch if keeps_epoch else NO_PRODUCER_EPOCH
        return self._reset(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _reset(self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> "Transaction":
        return Transaction(
            self.transactional_id,
            producer_id,
            timeout_ms,
            now_ms,
            last_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            start_ms=self.start_ms,
            client_version=self.client_version,
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], now_ms: int, *, client_version: int = 0
    ) -> "Transaction":
        """Return an open copy of the transaction, with more partitions."""
        return self._replace(
            last_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            # The timeout begins with the first partition, not with InitProducerId: an idle producer has no timeout.
            start_ms=now_ms if self.state.may_expire else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self) -> "Transaction":
        """Return a copy of the open transaction in an epoch that no producer has, so that none can continue it."""
        return self._replace(
            last_producer_id=self.producer_id,
            # The highest epoch is reserved, so that even a producer in its last epoch can be fenced.
            producer_epoch=min(self.producer_epoch + 1, _EPOCH_OF_FENCING),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def prepared(self, now_ms: int, *, commit: bool) -> "Transaction":
        """Return a copy that is prepared to commit or abort. Only the markers remain to be written."""
        return self._replace(
            last_producer_id=self.producer_id,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            updated_ms=now_ms,
            client_version=0,
        )

    def prepared_with_next_epoch(
        self, now_ms: int, *, commit: bool, next_producer_id: int = NO_PRODUCER_ID
    ) -> "Transaction":
        """Return a copy that is prepared to commit or abort, with the producer's epoch raised.

        If the current producer id has no epoch left, `next_producer_id` replaces it after the end. A transaction
        without partitions can be aborted, too. Its start and end times are then both now.
        """
        return self.prepared(now_ms, commit=commit)._replace(
            producer_epoch=min(self.producer_epoch + 1, _EPOCH_OF_FENCING),
            last_producer_epoch=self.producer_epoch,
            start_ms=now_ms if self.state.may_expire else self.start_ms,
            next_producer_id=next_producer_id,
            client_version=RAISES_EPOCHS,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Return a completed copy. All markers must have been written."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        # The producer id changes only now, because the markers belong to records with the old id.
        rotates = self.client_version >= RAISES_EPOCHS and self.next_producer_id != NO_PRODUCER_ID
        return self._replace(
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            last_producer_id=self.producer_id,
            state=TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now_ms,
        )


def end_error(
    transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool, raises_epoch: bool
) -> ErrorCode:
    """Return the error for a producer's request to end a transaction, or NONE (Kafka's `endTransaction`).

    `raises_epoch` distinguishes requests that raise the epoch (KIP-890) from older ones.
    """
    state = transaction.state
    is_retry = transaction.is_end_retry(producer_id, producer_epoch, raises_epoch=raises_epoch)
    if not is_retry and transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if is_retry and state in _COMMITS:
        if _COMMITS[state] is not commit:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.CONCURRENT_TRANSACTIONS if state.is_prepared else ErrorCode.NONE
    # A newer producer uses the transactional id (KIP-98), or the coordinator is already ending the transaction.
    if producer_epoch != transaction.producer_epoch or state.is_prepared:
        return ErrorCode.PRODUCER_FENCED
    # Without an open transaction there is nothing to commit, but an abort may raise the epoch.
    may_end = state is TransactionState.ONGOING or (raises_epoch and not commit)
    return ErrorCode.NONE if may_end else ErrorCode.INVALID_TXN_STATE


def is_exhausted(epoch: int) -> bool:
    """Return whether a producer in this epoch needs another producer id, because no higher epoch is left."""
    return epoch >= _LAST_EPOCH


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the sorted partition indexes of each topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id's records.

    Raises:
        EncodeError: The transactional id is too long.
    """
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def encode_value(transaction: Transaction, *, level: int = 0) -> bytes:
    """Return the value of a transaction's record (Kafka's `TransactionLog.valueToBytes`).

    Kafka omits the previous and the next producer id. It therefore loses the next id if it crashes after a transaction
    is prepared and before it is completed. Here both ids are written if they carry information.

    `level` is the level of `transaction.version`. From level 1, the record has tagged fields.
    """
    value_version = min(level, _LAST_VALUE_VERSION)
    rotated = transaction.last_producer_id != transaction.producer_id
    is_empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if is_empty
        else [
            PartitionsSchema(topic=topic, partition_ids=partitions)
            for topic, partitions in group_by_topic(transaction.partitions).items()
        ],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=NO_TIMESTAMP if is_empty else transaction.start_ms,
        previous_producer_id=transaction.last_producer_id if rotated else NO_PRODUCER_ID,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_version,
    )
    return encode_versioned(value, value_version)


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """Return the transaction in a record.

    Raises:
        ValueError: The state does not exist.
    """
    return Transaction(
        transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        producer_epoch=value.producer_epoch,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1
_VALUE: Final = struct.Struct(">hi")
"""The version and the coordinator epoch of an `EndTransactionMarker`."""


class Marker(NamedTuple):
    """The marker that ends a producer's transaction.

    Attributes:
        commit: True to commit, false to abort.
        coordinator_epoch: The epoch of the coordinator that decided the end.
        transaction_version: `RAISES_EPOCHS` if the end of the transaction raised the epoch.
    """

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int = 0
    transaction_version: int = 0


def write_marker(core: Core, topic_name: str, index: int, marker: Marker, *, node: Node | None = None) -> ErrorCode:
    """Write a marker to the log of a partition. If the result is NONE, the marker is in the file.

    `node` is the node that got the request. If it is None, the marker comes from this process's coordinator, which is
    the newest coordinator.

    Returns:
        - NONE: The marker is written.
        - NOT_LEADER_OR_FOLLOWER: `node` does not lead the partition, or the partition has no leader.
        - TRANSACTION_COORDINATOR_FENCED: The log has a marker from a newer coordinator.
        - INVALID_PRODUCER_EPOCH: The producer is in a newer epoch, or the marker's epoch should have been raised
          and was not (KIP-1228).
        - UNSUPPORTED_FOR_MESSAGE_FORMAT: The topic's message format has no markers.
        - UNKNOWN_SERVER_ERROR: The marker has no producer.
        - UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR.
    """
    topic = core.topics.get(topic_name)
    partition = topic.partition(index) if topic is not None else None
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if error_code := _replica_error(partition, node):
        return error_code
    # The topic was changed to an older format during the transaction, and this format has no control batches.
    if topic.append_policy.magic < MAGIC_V2:
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        # Kafka also fails with this error if the producer id or epoch is invalid.
        return ErrorCode.UNKNOWN_SERVER_ERROR
    # Write staged batches first, because some may belong to the transaction. Their errors go to their own responses.
    core.writes.commit()
    try:
        _append(partition, marker, core, is_own=node is None)
    except MAPPED as error:
        return error_code_of(error)
    # This hook is called last, because offsets in `__consumer_offsets` count only after the marker is in the log.
    core.hooks.marker_written((topic_name, index), marker.producer_id, marker.commit)
    return ErrorCode.NONE


def _replica_error(partition: Partition, node: Node | None) -> ErrorCode:
    leader = partition.leader
    if leader is None or (node is not None and leader is not node):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    log = partition.opened_log
    is_lagging = partition.is_under_min_isr or (log is not None and log.is_held)
    return ErrorCode.NOT_ENOUGH_REPLICAS if is_lagging else ErrorCode.NONE


def _append(partition: Partition, marker: Marker, core: Core, *, is_own: bool) -> None:
    log, epoch = partition.log, marker.coordinator_epoch
    producer = log.producers.active.get(marker.producer_id)
    if producer is not None:
        _check_epoch(producer, marker)
        if is_own:
            # A Kafka broker that used the directory before may have written a higher coordinator epoch. It must not
            # fence the markers of this process.
            epoch = max(epoch, producer.coordinator_epoch)
    now_ms = core.clock.now_ms()
    control_key = CONTROL_KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT)
    batch = memoryview(
        build_batch(
            [NewRecord(control_key, _VALUE.pack(_VERSION, epoch), now_ms)],
            timestamp_type=partition.topic.append_policy.timestamp_type,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            is_transactional=True,
            is_control=True,
        )
    )
    header = read_header(batch)
    # Markers from other coordinators (WriteTxnMarkers) come here, too, so check epochs as a Kafka leader does.
    log.producers.check(header, from_client=False)
    log.producers.check_coordinator_epoch(marker.producer_id, epoch)
    log.append(batch, header, partition.leader_epoch, now_ms)
    # Commit now rather than with the write group, because the coordinator marks the transaction complete right after
    # this.
    log.commit()


def _check_epoch(producer: ProducerStateEntry, marker: Marker) -> None:
    """Check that a marker does not end the producer's next transaction.

    If the end of a transaction raises the epoch, a transaction that is open in the marker's own epoch is a later one.

    Raises:
        InvalidProducerEpochError: The marker's epoch was not raised.
    """
    is_open = marker.transaction_version >= RAISES_EPOCHS and producer.current_txn_first_offset >= 0
    if is_open and producer.producer_epoch == marker.producer_epoch:
        raise InvalidProducerEpochError(
            f"producer {marker.producer_id}: the marker of epoch {marker.producer_epoch} should be of a later one"
        )
