"""Reassignments of partitions (KIP-455), and elections of their leaders (KIP-460)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
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
    """AlterPartitionReassignments (key 45): give partitions other replicas, or take that back (KIP-455).

    The changes; from version 1 on a client may forbid that a partition gets more or fewer replicas (KIP-860).
    """

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


@structure
class ListPartitionReassignmentsTopics:
    """The partitions of one topic."""

    name: String
    partition_indexes: Array[Int32]


@message(versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """ListPartitionReassignments (key 46): which partitions are on their way to other brokers (KIP-455).

    The partitions to look at; None means all.
    """

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


@structure
class TopicPartitions:
    """The partitions of one topic."""

    topic: String
    partitions: Array[Int32]


@message(versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """ElectLeaders (key 43): have partitions led by another replica (KIP-183, KIP-460).

    The partitions, None for all.

    `election_type` 0 wants the preferred replica as leader, and 1 any that is alive, also one that is not in sync.
    """

    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: NullableArray[TopicPartitions]
    timeout_ms: Int32 = 60000


@structure
class PartitionResult:
    """The outcome for one partition."""

    partition_id: Int32
    error_code: Int16
    error_message: NullableString


@structure
class ReplicaElectionResult:
    """The partitions of one topic."""

    topic: String
    partition_result: Array[PartitionResult]


@message(versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """One outcome for each partition; of all partitions, for those that needed an election."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: Array[ReplicaElectionResult]
