"""ShareAcknowledge: acknowledge records of a share group without a fetch (KIP-932).

Versions 1-2. Records are accepted, given back, rejected, or, from version 2 on, kept for longer (KIP-1222). The state
is written before the answer. An epoch of -1 ends the member's session, and gives back what it has left.
INVALID_RECORD_STATE for records that the member does not have (any more), UNKNOWN_TOPIC_OR_PARTITION where no member of
the group fetches.
"""

from typing import Final

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_partitions.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSessionError
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import asked_by_handler, checked
from minibroker.server.requests.share.acknowledging import acknowledge, hint_leader, member_of, right_error
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.share_records import (
    AcknowledgedPartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

NAMES: Final = topics_at("topics.topic_id", "partitions.partition_index")
NEEDS: Final = checked(right_error, "READ on the group") & asked_by_handler("READ on each topic")


def handle(request: ShareAcknowledgeRequest, call: Call) -> Steps[ShareAcknowledgeResponse]:
    """Acknowledge, partition by partition (`KafkaApis.handleShareAcknowledgeRequest`)."""
    manager = call.services.share_partitions
    try:
        member = member_of(request, call)
        if request.share_session_epoch == INITIAL_EPOCH:
            return refuse(request, call.api_version, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        manager.sessions(call.node).next(member, request.share_session_epoch)
    except ShareSessionError as error:
        return refuse(request, call.api_version, error.code)
    outcomes = yield from acknowledge(request, call)
    if request.share_session_epoch == FINAL_EPOCH:
        yield from manager.release(call.node, member)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: dict[int, NodeEndpoint] = {}
    for (topic_id, index), code in outcomes.items():
        data = AcknowledgedPartition(
            partition_index=index, error_code=code, error_message=code.meaning if code else None
        )
        hint_leader((topic_id, index), data, call, leaders)
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[]))
        topic.partitions.append(data)
        yield
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=manager.limits(member[0]).lock_ms,
        responses=list(topics.values()),
        node_endpoints=list(leaders.values()),
    )


def refuse(
    request: ShareAcknowledgeRequest,  # noqa: ARG001 - as all such functions
    version: int,  # noqa: ARG001 - as all such functions
    code: ErrorCode,
) -> ShareAcknowledgeResponse:
    """A response that says the error of the whole alone."""
    return ShareAcknowledgeResponse(error_code=code, responses=[], node_endpoints=[])
