"""AlterReplicaLogDirs (key 34): move replicas to another log directory of their broker (KIP-113)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    String,
    message,
    structure,
)


@structure
class AlterReplicaLogDirTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[Int32]


@structure
class AlterReplicaLogDir:
    """A directory, and what shall be there."""

    path: String
    topics: Array[AlterReplicaLogDirTopic]


@message(versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """The directories of the broker that is asked."""

    dirs: Array[AlterReplicaLogDir]


@structure
class AlterReplicaLogDirPartitionResult:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16


@structure
class AlterReplicaLogDirTopicResult:
    """The partitions of one topic."""

    topic_name: String
    partitions: Array[AlterReplicaLogDirPartitionResult]


@message(versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """One outcome for each partition that was named."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult]
