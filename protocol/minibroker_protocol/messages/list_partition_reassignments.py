"""ListPartitionReassignments (key 46): which partitions are on their way to other brokers (KIP-455)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    message,
    structure,
)


@structure
class ListPartitionReassignmentsTopics:
    """The partitions of one topic."""

    name: String
    partition_indexes: Array[Int32]


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """The partitions to look at; None means all."""

    timeout_ms: Int32 = 60000
    topics: NullableArray[ListPartitionReassignmentsTopics] = None


@structure
class OngoingPartitionReassignment:
    """One partition: all of its replicas, those that are new, and those that will go."""

    partition_index: Int32
    replicas: Array[Int32]
    adding_replicas: Array[Int32]
    removing_replicas: Array[Int32]


@structure
class OngoingTopicReassignment:
    """The partitions of one topic."""

    name: String
    partitions: Array[OngoingPartitionReassignment]


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """The partitions that are being reassigned."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    topics: Array[OngoingTopicReassignment]
