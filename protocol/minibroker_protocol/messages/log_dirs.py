"""Log directories, and the replicas in them (KIP-113)."""

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
    """DescribeLogDirs (key 35): where replicas are, and how many bytes they take (KIP-113).

    The partitions to tell of; None means all.
    """

    topics: NullableArray[DescribableLogDirTopic]


@structure
class DescribeLogDirsPartition:
    """One replica.

    `partition_size` is in bytes; `offset_lag` is how far it is behind the high watermark, or, of a replica that is
    being moved here (`is_future_key`), behind the one that it will replace.
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
    """One log directory, with the bytes of its volume (KIP-827); -1 where these are not known.

    A cordoned directory is given no new replicas (KIP-1066).
    """

    error_code: Int16
    log_dir: String
    topics: Array[DescribeLogDirsTopic]
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1
    is_cordoned: Annotated[Bool, since(5)] = False


@message(versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    """The log directories of the broker that was asked."""

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
    """A directory, and what shall be there."""

    path: String
    topics: Array[AlterReplicaLogDirTopic]


@message(versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """AlterReplicaLogDirs (key 34): move replicas to another log directory of their broker (KIP-113).

    The directories of the broker that is asked.
    """

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
