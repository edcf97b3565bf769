"""Transaction markers: the control batches that end a transaction in the logs of its partitions (KIP-98)."""

import struct
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.coordinators.transactions.transaction import RAISES_EPOCHS
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CONTROL_KEY, MAGIC_V2, read_header
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.errors import InvalidProducerEpochError
from minibroker_storage.producer_snapshot import ProducerStateEntry

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
