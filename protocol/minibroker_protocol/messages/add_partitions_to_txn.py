"""AddPartitionsToTxn (key 24): partitions that a transaction is about to write (KIP-98, KIP-890)."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    String,
    empty,
    message,
    since,
    structure,
    versions,
)


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
    """One transaction at the top from clients (up to version 3), several from brokers (from version 4 on)."""

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
