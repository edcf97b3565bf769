"""AlterPartitionReassignments (key 45): TODO."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    message,
    since,
    structure,
)


@structure
class ReassignablePartition:
    """TODO."""

    partition_index: Int32
    replicas: NullableArray[Int32] = None


@structure
class ReassignableTopic:
    """TODO."""

    name: String
    partitions: Array[ReassignablePartition]


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """TODO."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    topics: Array[ReassignableTopic]


@structure
class ReassignablePartitionResponse:
    """TODO."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString


@structure
class ReassignableTopicResponse:
    """TODO."""

    name: String
    partitions: Array[ReassignablePartitionResponse]


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    error_code: Int16
    error_message: NullableString
    responses: Array[ReassignableTopicResponse]
