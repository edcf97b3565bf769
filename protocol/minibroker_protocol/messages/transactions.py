"""APIs for transactions: producer ids, the partitions and groups of a transaction, and its end (KIP-98)."""

from typing import Annotated

from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    since,
    structure,
    versions,
)


@message(versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """InitProducerId (key 22) returns the producer id and epoch of an idempotent producer (KIP-98).

    From version 3 on, a producer can request the next epoch of its current id (KIP-360). Version 6 adds two-phase
    commit (KIP-939); Kafka has not finalized this version.
    """

    transactional_id: NullableString
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[Bool, since(6)] = False
    keep_prepared_txn: Annotated[Bool, since(6)] = False


@message(versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The producer id and its epoch, or an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6)] = -1


@structure
class AddPartitionsToTxnTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[Int32]


@structure
class AddPartitionsToTxnTransaction:
    """The partitions to add to one transaction.

    If `verify_only` is true, the broker only verifies that the transaction already contains the partitions.
    """

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: Array[AddPartitionsToTxnTopic]


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """AddPartitionsToTxn (key 24) adds partitions to transactions (KIP-98, KIP-890).

    A partition must be added before transactional records are written to it.

    Clients use versions up to 3, with a single transaction in the top-level fields. Brokers use versions from 4 on,
    with several transactions.
    """

    transactions: Annotated[Array[AddPartitionsToTxnTransaction], since(4)] = empty()
    v3_and_below_transactional_id: Annotated[String, versions("0-3")] = ""
    v3_and_below_producer_id: Annotated[Int64, versions("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[Int16, versions("0-3")] = 0
    v3_and_below_topics: Annotated[Array[AddPartitionsToTxnTopic], versions("0-3")] = empty()


@structure
class AddPartitionsToTxnPartitionResult:
    """The outcome for one partition."""

    partition_index: Int32
    partition_error_code: Int16


@structure
class AddPartitionsToTxnTopicResult:
    """The partitions of one topic."""

    name: String
    results_by_partition: Array[AddPartitionsToTxnPartitionResult]


@structure
class AddPartitionsToTxnResult:
    """The results for one transaction."""

    transactional_id: String
    topic_results: Array[AddPartitionsToTxnTopicResult]


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """One result per requested partition. Results are grouped by topic up to version 3, and by transaction later."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[Array[AddPartitionsToTxnResult], since(4)] = empty()
    results_by_topic_v3_and_below: Annotated[Array[AddPartitionsToTxnTopicResult], versions("0-3")] = empty()


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """AddOffsetsToTxn (key 25) adds a group to a transaction that will commit offsets of the group (KIP-98)."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """The result of adding the group's partition of the offsets topic to the transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16


@structure
class TxnOffsetCommitRequestPartition:
    """The offset to commit for one partition. `committed_offset` is the offset of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: NullableString


@structure
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic. From version 6 on, a topic id identifies the topic (KIP-1319)."""

    name: Annotated[String, versions("0-5")] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: Array[TxnOffsetCommitRequestPartition]


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    """TxnOffsetCommit (key 28) commits offsets of a group as part of a transaction (KIP-98, KIP-447).

    The offsets become visible when the transaction is committed. From version 3 on, the consumer's generation or
    member epoch is checked, unless it is -1 (KIP-447). From version 5 on, the request itself adds the group's
    partition of the offsets topic to the transaction (KIP-890).
    """

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[NullableString, since(3)] = None
    topics: Array[TxnOffsetCommitRequestTopic]


@structure
class TxnOffsetCommitResponsePartition:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


@structure
class TxnOffsetCommitResponseTopic:
    """The partitions of one topic. From version 6 on, a topic id identifies the topic (KIP-1319)."""

    name: Annotated[String, versions("0-5")] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: Array[TxnOffsetCommitResponsePartition]


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    """One result per requested partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic]


@message(versions="0-5", flexible="3+")
class EndTxnRequest:
    """EndTxn (key 26) commits or aborts a transaction (KIP-98)."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(versions="0-5", flexible="3+")
class EndTxnResponse:
    """The result of ending a transaction.

    Without an error, the outcome is decided, but the transaction's markers may be written later. The next
    transaction must use `producer_id` and `producer_epoch` (KIP-890).
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Annotated[Int64, since(5)] = -1
    producer_epoch: Annotated[Int16, since(5)] = -1


@structure
class WritableTxnMarkerTopic:
    """The partitions of one topic."""

    name: String
    partition_indexes: Array[Int32]


@structure
class WritableTxnMarker:
    """A marker that commits or aborts a transaction; `transaction_result` is true for a commit.

    `transaction_version` is 2 if the producer epoch was raised for the marker (KIP-1228). Since KIP-890, it is
    raised for every transaction.
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: Array[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, since(2)] = 0


@message(versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """WriteTxnMarkers (key 27) appends the markers of transactions that have ended (KIP-98).

    Transaction coordinators send it to partition leaders.
    """

    markers: Array[WritableTxnMarker]


@structure
class WritableTxnMarkerPartitionResult:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


@structure
class WritableTxnMarkerTopicResult:
    """The partitions of one topic."""

    name: String
    partitions: Array[WritableTxnMarkerPartitionResult]


@structure
class WritableTxnMarkerResult:
    """The results for the marker of one producer."""

    producer_id: Int64
    topics: Array[WritableTxnMarkerTopicResult]


@message(versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """One result per marker and partition."""

    markers: Array[WritableTxnMarkerResult]
