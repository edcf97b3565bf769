"""The cluster: its brokers, controllers and features."""

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
    """DescribeCluster (key 60) lists the cluster's nodes and names its controller (KIP-700).

    An `endpoint_type` of 1 requests brokers, and 2 requests controllers (KIP-919). From version 2 on, a client can
    include fenced brokers, which are registered but down (KIP-1073).
    """

    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[Bool, since(2)] = False


@structure
class DescribeClusterBroker:
    """A broker, with the address at which this client reaches it."""

    broker_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
    is_fenced: Annotated[Bool, since(2)] = False


@message(versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The cluster and its brokers. `cluster_authorized_operations` is a bit set, or -2**31 if it was not requested."""

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
    """A requested partition. Only partition 0 exists."""

    partition_index: Int32


@structure
class TopicData:
    """A requested topic. Only `__cluster_metadata` exists."""

    topic_name: String
    partitions: Array[PartitionData]


@message(versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """DescribeQuorum (key 55) describes the metadata quorum and its progress (KIP-595, KIP-836, KIP-853)."""

    topics: Array[TopicData]


@structure
class ReplicaState:
    """A voter or an observer.

    `last_fetch_timestamp` is the time of the replica's last fetch, or -1 for the leader. `last_caught_up_timestamp`
    is the time at which the leader's log end offset equaled this replica's current log end offset. Both times are
    in milliseconds, or -1 if unknown.
    """

    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(2)] = bytes(16)
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1)] = -1


@structure
class PartitionState:
    """The quorum of one partition. Its leader is the active controller."""

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
    """The address of a voter's listener."""

    name: Annotated[String, since(2)] = ""
    host: Annotated[String, since(2)] = ""
    port: Annotated[UInt16, since(2)] = 0


@structure
class Node:
    """A voter with its listeners."""

    node_id: Annotated[Int32, since(2)] = 0
    listeners: Annotated[Array[Listener], since(2)] = empty()


@message(versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """The requested quorums. From version 2 on, the addresses of the voters are included."""

    error_code: Int16
    error_message: Annotated[NullableString, since(2)] = None
    topics: Array[TopicState]
    nodes: Annotated[Array[Node], since(2)] = empty()


@structure
class FeatureUpdateKey:
    """A feature and its requested level. Level 0 disables the feature.

    An `upgrade_type` of 1 is an upgrade, 2 a safe downgrade (without loss of metadata) and 3 an unsafe downgrade.
    In version 0, setting `allow_downgrade` corresponds to type 2.
    """

    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, versions("0")] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@message(versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """UpdateFeatures (key 57) raises or lowers feature levels of the cluster (KIP-584, KIP-778, KIP-1022).

    If `validate_only` is true, the changes are checked but not made.
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
    """The result of all updates.

    Version 2 has no results per feature, because either all updates succeed or none.
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
    results: Annotated[Array[UpdatableFeatureResult], versions("0-1")] = empty()


@message(versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """UnregisterBroker (key 64) removes the registration of a broker that will not return (KIP-500)."""

    broker_id: Int32


@message(versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """The result of unregistering the broker."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString


@structure
class VoterListener:
    """The address of one listener of the voter."""

    name: String
    host: String
    port: UInt16


@message(versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """AddRaftVoter (key 80) makes a controller a voter of the metadata quorum (KIP-853).

    The voter is identified by its node id and the id of its metadata directory. If `ack_when_committed` is true, the
    response is sent after the new voter set is committed (KIP-1186).
    """

    cluster_id: NullableString
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: Array[VoterListener]
    ack_when_committed: Annotated[Bool, since(1)] = True


@message(versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """The result of adding the voter."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString


@message(versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """RemoveRaftVoter (key 81) removes a voter from the metadata quorum (KIP-853).

    The voter is identified by its node id and the id of its metadata directory.
    """

    cluster_id: NullableString
    voter_id: Int32
    voter_directory_id: Uuid


@message(versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """The result of removing the voter."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString


@message(versions="0", flexible="0+")
class UnregisterControllerRequest:
    """UnregisterController (key 94) removes the registration of a controller that is gone (KIP-1312).

    Operators send this request.
    """

    controller_id: Int32


@message(versions="0", flexible="0+")
class UnregisterControllerResponse:
    """The result of unregistering the controller."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
