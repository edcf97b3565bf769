"""AlterPartitionReassignments (key 45): give partitions other replicas, or take that back (KIP-455)."""

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
    """One partition and the brokers that shall keep it, the preferred leader first; None cancels what is going on."""

    partition_index: Int32
    replicas: NullableArray[Int32] = None


@structure
class ReassignableTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[ReassignablePartition]


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """The changes; from version 1 on a client may forbid that a partition gets more or fewer replicas (KIP-860)."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    topics: Array[ReassignableTopic]


@structure
class ReassignablePartitionResponse:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString


@structure
class ReassignableTopicResponse:
    """The partitions of one topic."""

    name: String
    partitions: Array[ReassignablePartitionResponse]


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """One outcome for each partition, unless `error_code` is about all of them."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    error_code: Int16
    error_message: NullableString
    responses: Array[ReassignableTopicResponse]
