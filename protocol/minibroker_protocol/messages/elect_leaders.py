"""ElectLeaders (key 43): have partitions led by another replica (KIP-183, KIP-460)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
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
class TopicPartitions:
    """The partitions of one topic."""

    topic: String
    partitions: Array[Int32]


@message(versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """The partitions, None for all.

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
