"""WriteTxnMarkers (key 27): a coordinator has the ends of transactions written to logs (KIP-98)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, String, message, since, structure


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
    """The markers to append."""

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
