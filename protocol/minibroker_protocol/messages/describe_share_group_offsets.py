"""DescribeShareGroupOffsets (key 90): the start offsets and lags of share groups (KIP-932, KIP-1226)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
    message,
    since,
    structure,
)


@structure
class DescribeShareGroupOffsetsRequestTopic:
    """Partitions of one topic."""

    topic_name: String
    partitions: Array[Int32]


@structure
class DescribeShareGroupOffsetsRequestGroup:
    """A group; `topics` is null for all that it has."""

    group_id: String
    topics: NullableArray[DescribeShareGroupOffsetsRequestTopic] = None


@message(versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    """The groups to describe."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup]


@structure
class DescribeShareGroupOffsetsResponsePartition:
    """The offsets of one share-partition; `lag` is -1 where it is unknown."""

    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Annotated[Int64, since(1)] = -1
    error_code: Int16
    error_message: NullableString = None


@structure
class DescribeShareGroupOffsetsResponseTopic:
    """The partitions of one topic."""

    topic_name: String
    topic_id: Uuid
    partitions: Array[DescribeShareGroupOffsetsResponsePartition]


@structure
class DescribeShareGroupOffsetsResponseGroup:
    """A group, with an error of its own."""

    group_id: String
    topics: Array[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: NullableString = None


@message(versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    """The groups in the order of the request."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup]
