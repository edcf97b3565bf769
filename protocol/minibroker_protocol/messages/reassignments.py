"""Partition reassignments (KIP-455) and leader elections (KIP-460)."""

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
    """A partition and its new replicas, beginning with the preferred leader.

    If `replicas` is None, a pending reassignment is canceled.
    """

    partition_index: Int32
    replicas: NullableArray[Int32] = None


@structure
class ReassignableTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[ReassignablePartition]


@message(versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """AlterPartitionReassignments (key 45) starts or cancels reassignments of partitions to other replicas (KIP-455).

    From version 1 on, a client can forbid changes to the replication factor (KIP-860).
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
    """One result per partition, unless the top-level `error_code` applies to all of them."""

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
    """ListPartitionReassignments (key 46) lists partitions whose replicas are being reassigned (KIP-455).

    If `topics` is None, all such partitions are listed.
    """

    timeout_ms: Int32 = 60000
    topics: NullableArray[ListPartitionReassignmentsTopics] = None


@structure
class OngoingPartitionReassignment:
    """A partition with all its replicas, including replicas that are being added or removed."""

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
    """The ongoing reassignments."""

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
    """ElectLeaders (key 43) elects new leaders for partitions (KIP-183, KIP-460).

    If `topic_partitions` is None, leaders are elected for all partitions. An `election_type` of 0 elects the
    preferred replica, and 1 (unclean) elects any live replica, even if it is not in sync.
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
    """One result per requested partition.

    If all partitions were requested, only partitions that needed an election have a result.
    """

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: Array[ReplicaElectionResult]
