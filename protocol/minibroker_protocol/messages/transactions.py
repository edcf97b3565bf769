"""Transactions: ids of producers, what a transaction writes to, and its end (KIP-98)."""

from dataclasses import field
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
    """InitProducerId (key 22): the id and epoch that make a producer idempotent (KIP-98).

    From version 3 on a producer may ask for the next epoch of the id it has (KIP-360).

    Kafka still designs version 6, with two-phase commit (KIP-939).
    """

    transactional_id: NullableString
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[Bool, since(6)] = False
    keep_prepared_txn: Annotated[Bool, since(6)] = False


@message(versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The producer id with its epoch, or why there is none."""

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
    """The partitions that one transaction adds; with `verify_only` nothing is added, only looked up."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: Array[AddPartitionsToTxnTopic]


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """AddPartitionsToTxn (key 24): partitions that a transaction is about to write (KIP-98, KIP-890).

    One transaction at the top from clients (up to version 3), several from brokers (from version 4 on).
    """

    transactions: Annotated[Array[AddPartitionsToTxnTransaction], since(4)] = field(default_factory=empty)
    v3_and_below_transactional_id: Annotated[String, versions("0-3")] = ""
    v3_and_below_producer_id: Annotated[Int64, versions("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[Int16, versions("0-3")] = 0
    v3_and_below_topics: Annotated[Array[AddPartitionsToTxnTopic], versions("0-3")] = field(default_factory=empty)


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
    """The outcomes of one transaction."""

    transactional_id: String
    topic_results: Array[AddPartitionsToTxnTopicResult]


@message(versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """One outcome per partition asked, by topic up to version 3 and by transaction later."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[Array[AddPartitionsToTxnResult], since(4)] = field(default_factory=empty)
    results_by_topic_v3_and_below: Annotated[Array[AddPartitionsToTxnTopicResult], versions("0-3")] = field(
        default_factory=empty
    )


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """AddOffsetsToTxn (key 25): a transaction is about to commit offsets of a group (KIP-98).

    The group whose offsets the transaction will commit.
    """

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Whether the transaction has the group's partition of the offsets topic in it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16


@structure
class TxnOffsetCommitRequestPartition:
    """`committed_offset` is that of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: NullableString


@structure
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic, which from version 6 on is named by its id (KIP-1319)."""

    name: Annotated[String, versions("0-5")] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: Array[TxnOffsetCommitRequestPartition]


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    """TxnOffsetCommit (key 28): offsets that count once the transaction is committed (KIP-98, KIP-447).

    From version 3 on the consumer's generation, or its epoch, is checked, too, unless it is -1 (KIP-447).

    From version 5 on the group's partition joins the transaction with this very request (KIP-890).
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
    """The partitions of one topic, which from version 6 on is named by its id (KIP-1319)."""

    name: Annotated[String, versions("0-5")] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: Array[TxnOffsetCommitResponsePartition]


@message(versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    """One outcome per partition asked."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic]


@message(versions="0-5", flexible="3+")
class EndTxnRequest:
    """EndTxn (key 26): commit a transaction, or abort it (KIP-98).

    `committed`: true to commit, false to abort.
    """

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(versions="0-5", flexible="3+")
class EndTxnResponse:
    """The end is decided once this says so; the markers may follow later.

    `producer_id` and `producer_epoch` are what the producer's next transaction is written under (KIP-890).
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
    """The end of one transaction; `transaction_result` is true for a commit and false for an abort.

    `transaction_version` is 2 when the producer's epoch was raised for the marker, as with every transaction since
    KIP-890 (KIP-1228).
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: Array[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, since(2)] = 0


@message(versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """WriteTxnMarkers (key 27): a coordinator has the ends of transactions written to logs (KIP-98).

    The markers to append.
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
    """The outcomes for one producer."""

    producer_id: Int64
    topics: Array[WritableTxnMarkerTopicResult]


@message(versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """One outcome per marker and partition."""

    markers: Array[WritableTxnMarkerResult]
