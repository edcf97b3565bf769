"""Log directories and their replicas (KIP-113)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    String,
    message,
    since,
    structure,
)


@structure
class DescribableLogDirTopic:
    """The partitions of one topic."""

    topic: String
    partitions: Array[Int32]


@message(versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    """DescribeLogDirs (key 35) describes log directories, with their replicas and sizes (KIP-113).

    If `topics` is None, the response has all partitions.
    """

    topics: NullableArray[DescribableLogDirTopic]


@structure
class DescribeLogDirsPartition:
    """One replica in a log directory.

    `partition_size` is in bytes. `offset_lag` is the number of offsets by which the replica is behind the high
    watermark. A replica with `is_future_key` is being moved into this directory; its lag is measured from the
    replica that it will replace.
    """

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@structure
class DescribeLogDirsTopic:
    """The replicas of one topic."""

    name: String
    partitions: Array[DescribeLogDirsPartition]


@structure
class DescribeLogDirsResult:
    """A log directory with its replicas.

    The total and the usable bytes of the directory's volume (KIP-827) are -1 if unknown. No new replicas are placed
    in a cordoned directory (KIP-1066).
    """

    error_code: Int16
    log_dir: String
    topics: Array[DescribeLogDirsTopic]
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1
    is_cordoned: Annotated[Bool, since(5)] = False


@message(versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    """The log directories of one broker."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3)] = 0
    results: Array[DescribeLogDirsResult]


@structure
class AlterReplicaLogDirTopic:
    """The partitions of one topic."""

    name: String
    partitions: Array[Int32]


@structure
class AlterReplicaLogDir:
    """A log directory, and the partitions to move into it."""

    path: String
    topics: Array[AlterReplicaLogDirTopic]


@message(versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """AlterReplicaLogDirs (key 34) moves replicas to another log directory of the same broker (KIP-113)."""

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
    """One result per requested partition."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult]
