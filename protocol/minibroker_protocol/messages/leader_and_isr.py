"""LeaderAndIsr (key 4): TODO."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    empty,
    message,
    since,
    structure,
    versions,
)


@structure
class LeaderAndIsrPartitionState:
    """TODO."""

    topic_name: Annotated[String, versions("0-1")] = ""
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: Array[Int32]
    partition_epoch: Int32
    replicas: Array[Int32]
    adding_replicas: Annotated[Array[Int32], since(3)] = field(default_factory=empty)
    removing_replicas: Annotated[Array[Int32], since(3)] = field(default_factory=empty)
    is_new: Annotated[Bool, since(1)] = False
    leader_recovery_state: Annotated[Int8, since(6)] = 0


@structure
class LeaderAndIsrTopicState:
    """TODO."""

    topic_name: Annotated[String, since(2)] = ""
    topic_id: Annotated[Uuid, since(5)] = bytes(16)
    partition_states: Annotated[Array[LeaderAndIsrPartitionState], since(2)] = field(default_factory=empty)


@structure
class LeaderAndIsrLiveLeader:
    """TODO."""

    broker_id: Int32
    host_name: String
    port: Int32


@message(versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    """TODO."""

    controller_id: Int32
    is_kraft_controller: Annotated[Bool, since(7)] = False
    controller_epoch: Int32
    broker_epoch: Annotated[Int64, since(2)] = -1
    type: Annotated[Int8, since(5)] = 0
    ungrouped_partition_states: Annotated[Array[LeaderAndIsrPartitionState], versions("0-1")] = field(
        default_factory=empty
    )
    topic_states: Annotated[Array[LeaderAndIsrTopicState], since(2)] = field(default_factory=empty)
    live_leaders: Array[LeaderAndIsrLiveLeader]


@structure
class LeaderAndIsrPartitionError:
    """TODO."""

    topic_name: Annotated[String, versions("0-4")] = ""
    partition_index: Int32
    error_code: Int16


@structure
class LeaderAndIsrTopicError:
    """TODO."""

    topic_id: Annotated[Uuid, since(5)] = bytes(16)
    partition_errors: Annotated[Array[LeaderAndIsrPartitionError], since(5)] = field(default_factory=empty)


@message(versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    """TODO."""

    error_code: Int16
    partition_errors: Annotated[Array[LeaderAndIsrPartitionError], versions("0-4")] = field(default_factory=empty)
    topics: Annotated[Array[LeaderAndIsrTopicError], since(5)] = field(default_factory=empty)
