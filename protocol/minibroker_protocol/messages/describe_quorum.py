"""DescribeQuorum (key 55): the voters of the metadata quorum, and how far they are (KIP-595, KIP-836, KIP-853)."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    UInt16,
    Uuid,
    empty,
    message,
    since,
    structure,
)


@structure
class PartitionData:
    """A partition that is asked for; there is only 0."""

    partition_index: Int32


@structure
class TopicData:
    """A topic that is asked for; there is only `__cluster_metadata`."""

    topic_name: String
    partitions: Array[PartitionData]


@message(versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """The partitions of metadata logs."""

    topics: Array[TopicData]


@structure
class ReplicaState:
    """A voter or an observer.

    The timestamps, in ms, are of its last fetch (-1 for the leader), and of the time at which the leader had no more
    than it has now; -1 where they are not known.
    """

    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(2)] = bytes(16)
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1)] = -1


@structure
class PartitionState:
    """The quorum of one partition, whose leader is the active controller."""

    partition_index: Int32
    error_code: Int16
    error_message: Annotated[NullableString, since(2)] = None
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: Array[ReplicaState]
    observers: Array[ReplicaState]


@structure
class TopicState:
    """The partitions of one topic."""

    topic_name: String
    partitions: Array[PartitionState]


@structure
class Listener:
    """Where a voter is found."""

    name: Annotated[String, since(2)] = ""
    host: Annotated[String, since(2)] = ""
    port: Annotated[UInt16, since(2)] = 0


@structure
class Node:
    """A voter."""

    node_id: Annotated[Int32, since(2)] = 0
    listeners: Annotated[Array[Listener], since(2)] = field(default_factory=empty)


@message(versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """The quorums; from version 2 on also where their voters are found."""

    error_code: Int16
    error_message: Annotated[NullableString, since(2)] = None
    topics: Array[TopicState]
    nodes: Annotated[Array[Node], since(2)] = field(default_factory=empty)
