"""Structures in Produce and Fetch responses that redirect a client to the current leader (KIP-951)."""

from minibroker_protocol.schema import Int32, NullableString, String, frozen_structure, structure


@frozen_structure
class LeaderIdAndEpoch:
    """The id and the epoch of a partition's current leader. Both are -1 if the leader is unknown."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@structure
class NodeEndpoint:
    """The address of a broker that leads a requested partition."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
