"""DescribeQuorum (key 55): TODO."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    NullableString,
    String,
    UInt16,
    empty,
    message,
    since,
    structure,
)


@structure
class PartitionData:
    """TODO."""

    partition_index: Int32


@structure
class TopicData:
    """TODO."""

    topic_name: String
    partitions: Array[PartitionData]


@message(versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """TODO."""

    topics: Array[TopicData]


@structure
class Listener:
    """TODO."""

    name: Annotated[String, since(2)] = ""
    host: Annotated[String, since(2)] = ""
    port: Annotated[UInt16, since(2)] = 0


@structure
class Node:
    """TODO."""

    node_id: Annotated[Int32, since(2)] = 0
    listeners: Annotated[Array[Listener], since(2)] = field(default_factory=empty)


@message(versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """TODO."""

    error_code: Int16
    error_message: Annotated[NullableString, since(2)] = ""
    topics: Array[TopicData]
    nodes: Annotated[Array[Node], since(2)] = field(default_factory=empty)
