"""ElectLeaders (key 43): TODO."""

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
    """TODO."""

    topic: String
    partitions: Array[Int32]


@message(versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """TODO."""

    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: NullableArray[TopicPartitions]
    timeout_ms: Int32 = 60000


@structure
class PartitionResult:
    """TODO."""

    partition_id: Int32
    error_code: Int16
    error_message: NullableString


@structure
class ReplicaElectionResult:
    """TODO."""

    topic: String
    partition_result: Array[PartitionResult]


@message(versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: Array[ReplicaElectionResult]
