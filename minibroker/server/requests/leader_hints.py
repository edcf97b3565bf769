"""Leader hints in Produce and Fetch responses: a partition's leader and its endpoint (KIP-951)."""

from typing import TYPE_CHECKING

from minibroker.cluster.node import NO_NODE
from minibroker_protocol.messages.current_leader import LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from minibroker.cluster.partition import Partition
    from minibroker.server.requests.call import Call


def hint_of(partition: "Partition", call: "Call", endpoints: dict[int, NodeEndpoint]) -> LeaderIdAndEpoch:
    """Return the leader of a partition, and add its address to `endpoints` by node id."""
    leader = partition.leader
    if leader is not None:
        host, port = call.address_of(leader)
        endpoints[leader.id] = NodeEndpoint(node_id=leader.id, host=host, port=port, rack=leader.rack)
    return LeaderIdAndEpoch(leader_id=leader.id if leader else NO_NODE, leader_epoch=partition.leader_epoch)
