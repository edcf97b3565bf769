"""ListPartitionReassignments (key 46): TODO."""

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
    """TODO."""

    name: String
    partition_indexes: Array[Int32]


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """TODO."""

    timeout_ms: Int32 = 60000
    topics: NullableArray[ListPartitionReassignmentsTopics] = None


@structure
class OngoingPartitionReassignment:
    """TODO."""

    partition_index: Int32
    replicas: Array[Int32]
    adding_replicas: Array[Int32]
    removing_replicas: Array[Int32]


@structure
class OngoingTopicReassignment:
    """TODO."""

    name: String
    partitions: Array[OngoingPartitionReassignment]


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    topics: Array[OngoingTopicReassignment]
