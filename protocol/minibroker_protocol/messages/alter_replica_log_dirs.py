"""AlterReplicaLogDirs (key 34): TODO."""

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
    """TODO."""

    name: String
    partitions: Array[Int32]


@structure
class AlterReplicaLogDir:
    """TODO."""

    path: String
    topics: Array[AlterReplicaLogDirTopic]


@message(versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """TODO."""

    dirs: Array[AlterReplicaLogDir]


@structure
class AlterReplicaLogDirPartitionResult:
    """TODO."""

    partition_index: Int32
    error_code: Int16


@structure
class AlterReplicaLogDirTopicResult:
    """TODO."""

    topic_name: String
    partitions: Array[AlterReplicaLogDirPartitionResult]


@message(versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult]
