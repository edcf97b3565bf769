"""ShareGroupHeartbeat: join a share group, be assigned, stay, leave (KIP-932).

Version 1. The client makes the member id, of at most 36 characters. A partition is assigned once its state is there,
which is made after the heartbeat that brings its topic, as in Kafka: a member hears of it with a later heartbeat.
INVALID_REQUEST for what does not fit together, GROUP_ID_NOT_FOUND for a group of another kind, UNSUPPORTED_VERSION
while the feature share.version is off.
"""

from typing import Final

from minibroker.coordinators.groups.modern.coordinator import GroupRefusedError
from minibroker.coordinators.groups.modern.group import JOINING, LEAVING
from minibroker.coordinators.groups.share.coordinator import ShareHeartbeat
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import checked, missing_to_subscribe
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_LONGEST_MEMBER_ID: Final = 36


def _right_error(request: ShareGroupHeartbeatRequest, call: Call) -> ErrorCode:
    """A member may only subscribe to topics that it may describe."""
    return missing_to_subscribe(call, request.group_id, request.subscribed_topic_names or ())


NEEDS: Final = checked(_right_error, "READ on the group; DESCRIBE on all topics that the member subscribes to")


def handle(request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    """Answer immediately: no member waits for another (`GroupMetadataManager.shareGroupHeartbeat`)."""
    coordinator = call.services.groups
    shares = coordinator.shares
    if not shares.is_enabled:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    wrong = _fault(request)
    if wrong is not None:
        return _refused(ErrorCode.INVALID_REQUEST, wrong)
    code = coordinator.status(request.group_id, call.node)
    if code:
        return _refused(code)
    try:
        if request.member_epoch == LEAVING:
            answer = shares.leave(request.group_id, request.member_id, None, LEAVING)
        else:
            answer = shares.heartbeat(_heartbeat(request, call))
    except GroupRefusedError as error:
        return _refused(error.code, error.message)
    assignment = None
    if answer.assignment is not None:
        listed = [TopicPartitions(topic_id=id_, partitions=sorted(each)) for id_, each in answer.assignment.items()]
        assignment = Assignment(topic_partitions=listed)
    return ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=0 if answer.epoch == LEAVING else shares.heartbeat_interval_ms(request.group_id),
        assignment=assignment,
    )


def _fault(request: ShareGroupHeartbeatRequest) -> str | None:
    """Find what is invalid in a request."""
    if not request.member_id or len(request.member_id) > _LONGEST_MEMBER_ID:
        return f"A member id has 1 to {_LONGEST_MEMBER_ID} characters."
    texts = {"MemberId": request.member_id, "GroupId": request.group_id, "RackId": request.rack_id}
    blank = next((name for name, text in texts.items() if text is not None and not text.strip()), None)
    if blank is not None:
        return f"{blank} can't be empty."
    if request.member_epoch < LEAVING:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
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


def _refused(code: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)
