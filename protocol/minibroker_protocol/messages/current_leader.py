"""The structures with which Produce and Fetch name the leader to a client that asked another broker (KIP-951)."""

from minibroker_protocol.schema import Int32, NullableString, String, frozen_structure, structure


@frozen_structure
class LeaderIdAndEpoch:
    """The leader as the broker knows it; -1 where it does not."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@structure
class NodeEndpoint:
    """The address of a broker that leads a partition of the request."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = None
