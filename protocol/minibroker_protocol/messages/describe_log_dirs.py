"""DescribeLogDirs (key 35): TODO."""

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
    """TODO."""

    topic: String
    partitions: Array[Int32]


@message(versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    """TODO."""

    topics: NullableArray[DescribableLogDirTopic]


@structure
class DescribeLogDirsPartition:
    """TODO."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


@structure
class DescribeLogDirsTopic:
    """TODO."""

    name: String
    partitions: Array[DescribeLogDirsPartition]


@structure
class DescribeLogDirsResult:
    """TODO."""

    error_code: Int16
    log_dir: String
    topics: Array[DescribeLogDirsTopic]
    total_bytes: Annotated[Int64, since(4)] = -1
    usable_bytes: Annotated[Int64, since(4)] = -1
    is_cordoned: Annotated[Bool, since(5)] = False


@message(versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3)] = 0
    results: Array[DescribeLogDirsResult]
