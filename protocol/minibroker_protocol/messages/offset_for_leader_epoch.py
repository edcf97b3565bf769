"""OffsetForLeaderEpoch (key 23): where the epoch of a leader has ended (KIP-101, KIP-320)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Int16, Int32, Int64, String, message, since, structure


@structure
class OffsetForLeaderPartition:
    """An epoch to look up; `current_leader_epoch` is the one that the client believes in."""

    partition: Int32
    current_leader_epoch: Annotated[Int32, since(2)] = -1
    leader_epoch: Int32


@structure
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: String
    partitions: Array[OffsetForLeaderPartition]


@message(versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """`replica_id`: -1 for a consumer, -2 for one that looks for faults."""

    replica_id: Annotated[Int32, since(3)] = -2
    topics: Array[OffsetForLeaderTopic]


@structure
class EpochEndOffset:
    """The largest epoch that is not above the one asked for, and its end; -1 for both where there is none."""

    error_code: Int16
    partition: Int32
    leader_epoch: Annotated[Int32, since(1)] = -1
    end_offset: Int64 = -1


@structure
class OffsetForLeaderTopicResult:
    """The partitions of one topic."""

    topic: String
    partitions: Array[EpochEndOffset]


@message(versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """One outcome per partition asked."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: Array[OffsetForLeaderTopicResult]
