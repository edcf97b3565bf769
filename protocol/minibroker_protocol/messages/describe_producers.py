"""DescribeProducers (key 61): the producers that a partition knows (KIP-664)."""

from minibroker_protocol.schema import Array, Int16, Int32, Int64, NullableString, String, message, structure


@structure
class TopicRequest:
    """The partitions of one topic."""

    name: String
    partition_indexes: Array[Int32]


@message(versions="0", flexible="0+")
class DescribeProducersRequest:
    """The partitions to look at."""

    topics: Array[TopicRequest]


@structure
class ProducerState:
    """The state of one producer in a partition.

    `last_timestamp` is in ms; `current_txn_start_offset` is -1 while no transaction is open.
    """

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@structure
class PartitionResponse:
    """The producers of one partition, or an error."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    active_producers: Array[ProducerState]


@structure
class TopicResponse:
    """The partitions of one topic."""

    name: String
    partitions: Array[PartitionResponse]


@message(versions="0", flexible="0+")
class DescribeProducersResponse:
    """One answer per partition asked."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse]
