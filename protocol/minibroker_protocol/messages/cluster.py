"""The cluster: its brokers, controllers and features."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int8,
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
    versions,
)


@message(versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """DescribeCluster (key 60): which brokers there are, and which of them is the controller (KIP-700).

    A request for the cluster's nodes; `endpoint_type` is 1 for brokers and 2 for controllers (KIP-919).

    From version 2 on brokers that are registered but down are listed, too, if the client wants them (KIP-1073).
    """

    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False


@structure
class DescribeClusterBroker:
    """One broker and where this client finds it."""

    broker_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
    is_fenced: Annotated[Bool, since(2)] = False


@message(versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The cluster; `cluster_authorized_operations` is a set of bits, and -2**31 if it was not asked for."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: String
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -2147483648


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
    """DescribeQuorum (key 55): the voters of the metadata quorum, and how far they are (KIP-595, KIP-836, KIP-853).

    The partitions of metadata logs.
    """

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


@structure
class FeatureUpdateKey:
    """A feature and the level that it shall have; 0 turns it off.

    `upgrade_type` is 1 for a raise, 2 for lowering without loss and 3 for lowering at any price; before version 1
    `allow_downgrade` stands for 2.
    """

    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, versions("0")] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@message(versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """UpdateFeatures (key 57): raise or lower feature levels of the cluster (KIP-584, KIP-778, KIP-1022).

    The changes; `validate_only` asks whether they could be made.
    """

    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey]
    validate_only: Annotated[Bool, since(1)] = False


@structure
class UpdatableFeatureResult:
    """The outcome for one feature."""

    feature: String
    error_code: Int16
    error_message: NullableString


@message(versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """Whether all has been changed; from version 2 on nothing is said of each feature, since it is all or nothing."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    results: Annotated[Array[UpdatableFeatureResult], versions("0-1")] = field(default_factory=empty)


@message(versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """UnregisterBroker (key 64): forget a broker that will not come back (KIP-500).

    The broker by its id.
    """

    broker_id: Int32


@message(versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString


@structure
class VoterListener:
    """Where the voter is found."""

    name: String
    host: String
    port: UInt16


@message(versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """AddRaftVoter (key 80): a controller becomes a voter of the metadata quorum (KIP-853).

    The voter, by its id and the id of its directory.

    `ack_when_committed` says whether the answer waits until the new set of voters is committed (KIP-1186).
    """

    cluster_id: NullableString
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[VoterListener]
    ack_when_committed: Annotated[Bool, since(1)] = True


@message(versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString


@message(versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """RemoveRaftVoter (key 81): a controller is no voter of the metadata quorum any more (KIP-853).

    The voter, by its id and the id of its directory.
    """

    cluster_id: NullableString
    voter_id: Int32
    voter_directory_id: Uuid


@message(versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString


@message(versions="0", flexible="0+")
class UnregisterControllerRequest:
    """UnregisterController (key 94): an operator has the cluster forget a controller that is gone (KIP-1312).

    The controller's node id.
    """

    controller_id: Int32


@message(versions="0", flexible="0+")
class UnregisterControllerResponse:
    """Whether it is forgotten, and if not, why."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
