"""DescribeQuorum: the quorum that keeps the cluster's metadata (KIP-595, KIP-836, KIP-853).

Versions 0-2. There is no metadata log. The state instead of it has one copy: the controller is named as the only
voter and the leader of `__cluster_metadata`, the brokers beside it that are up as observers that have all of it.
Offsets grow as in an idle Kafka, which writes a record every half a second. In place of a controller's listener
version 2 has the broker's. UNKNOWN_TOPIC_OR_PARTITION for each partition if a request asks for any other than
partition 0 of that topic.
"""

from typing import Final

from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Refusal
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import METADATA_TOPIC
from minibroker_protocol.messages.cluster import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionState,
    ReplicaState,
    TopicState,
)

_RECORD_EVERY_MS: Final = 500
"""`metadata.max.idle.interval.ms`."""
_LISTENER: Final = "CONTROLLER"

NEEDS: Final = on_cluster(Operation.DESCRIBE)
REFUSAL: Final = Refusal(explained=True)


def handle(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    """Describe the quorum of the metadata, and no other one."""
    named = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if named != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    core = call.core
    controller = core.cluster.controller or call.node
    end = int(core.clock.monotonic_ms() - call.services.started_ms) // _RECORD_EVERY_MS + 1
    now = core.clock.now_ms()
    host, port = call.address_of(controller)

    def replica(node_id: int) -> ReplicaState:
        return ReplicaState(
            replica_id=node_id, log_end_offset=end, last_fetch_timestamp=now, last_caught_up_timestamp=now
        )

    quorum = PartitionState(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=controller.id,
        leader_epoch=core.cluster.controller_epoch,
        high_watermark=end,
        current_voters=[replica(controller.id)],
        observers=[replica(node.id) for node in core.cluster.up if node is not controller],
    )
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=[TopicState(topic_name=METADATA_TOPIC, partitions=[quorum])],
        nodes=[Node(node_id=controller.id, listeners=[Listener(name=_LISTENER, host=host, port=port)])],
    )


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Kafka leaves the other fields at 0 then."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=[
            TopicState(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionState(
                        partition_index=each.partition_index,
                        error_code=code,
                        error_message=code.meaning,
                        leader_id=0,
                        leader_epoch=0,
                        high_watermark=0,
                        current_voters=[],
                        observers=[],
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
