"""ShareGroupHeartbeat: join a share group, be assigned, stay, leave (KIP-932).

Version 1. The client makes the member id, of at most 36 characters. A partition is assigned once its state is there,
which is made after the heartbeat that brings its topic, as in Kafka: a member hears of it with a later heartbeat.
INVALID_REQUEST for what does not fit together, GROUP_ID_NOT_FOUND for a group of another kind, UNSUPPORTED_VERSION
while the feature share.version is off.
"""

from typing import Final

from minibroker.coordinators.groups.modern.answers import Answer, GroupRefusedError
from minibroker.coordinators.groups.share.coordinator import JOINING, LEAVING, ShareHeartbeat
from minibroker.requests.call import Call
from minibroker.requests.requirements import checked, missing_to_subscribe
from minibroker.requests.same_request import SameRequest
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_LONGEST_MEMBER_ID: Final = 36
_FEW_NAMES: Final = 1000


def _right_error(request: ShareGroupHeartbeatRequest, call: Call) -> ErrorCode:
    """A member may only subscribe to topics that it may describe."""
    return missing_to_subscribe(call, request.group_id, request.subscribed_topic_names or ())


NEEDS: Final = checked(_right_error, "READ on the group; DESCRIBE on all topics that the member subscribes to")

REPEAT: Final = SameRequest


def handle(
    request: ShareGroupHeartbeatRequest, call: Call
) -> ShareGroupHeartbeatResponse | Steps[ShareGroupHeartbeatResponse]:
    """Answer at once: nobody waits for anybody (`GroupMetadataManager.shareGroupHeartbeat`)."""
    if not call.services.groups.shares.is_enabled:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    wrong = _fault(request)
    if wrong is not None:
        return _refused(ErrorCode.INVALID_REQUEST, wrong)
    heartbeat = _heartbeat(request, call)
    if heartbeat.topics is not None and len(heartbeat.topics) > _FEW_NAMES:
        return _handle_later(heartbeat, call)
    return _handle(heartbeat, call)


def _handle_later(heartbeat: ShareHeartbeat, call: Call) -> Steps[ShareGroupHeartbeatResponse]:
    """Leave to another step what the group makes of many names."""
    yield
    return _handle(heartbeat, call)


def _handle(heartbeat: ShareHeartbeat, call: Call) -> ShareGroupHeartbeatResponse:
    coordinator = call.services.groups
    shares = coordinator.shares
    code = coordinator.status(heartbeat.group_id, call.node)
    if code:
        return _refused(code)
    try:
        if heartbeat.epoch == LEAVING:
            return _response(shares.leave(heartbeat.group_id, heartbeat.member_id), 0)
        answer = shares.heartbeat(heartbeat)
    except GroupRefusedError as error:
        return _refused(error.code, error.message)
    return _response(answer, shares.heartbeat_interval_ms(heartbeat.group_id))


def _fault(request: ShareGroupHeartbeatRequest) -> str | None:
    """Find what is invalid in a request."""
    if not request.member_id or len(request.member_id) > _LONGEST_MEMBER_ID:
        return f"A member id has 1 to {_LONGEST_MEMBER_ID} characters."
    if not request.group_id:
        return "The group id is empty."
    if request.rack_id == "":
        return "A rack may be null, but not empty."
    if request.member_epoch < LEAVING:
        return f"{request.member_epoch} is not a valid member epoch."
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        return "A member that joins must name its subscriptions."
    return None


def _heartbeat(request: ShareGroupHeartbeatRequest, call: Call) -> ShareHeartbeat:
    names = request.subscribed_topic_names
    return ShareHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id,
        None if names is None else frozenset(names),
        call.client_id or "",
        call.client_host,
    )


def _response(answer: Answer, interval_ms: int) -> ShareGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        listed = [TopicPartitions(topic_id=id_, partitions=sorted(each)) for id_, each in answer.assignment.items()]
        assignment = Assignment(topic_partitions=listed)
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


def _refused(code: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)
