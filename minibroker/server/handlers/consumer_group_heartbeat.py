"""ConsumerGroupHeartbeat: join a group of the consumer protocol, be assigned, stay, leave (KIP-848).

Versions 0-1. From version 1 on the client makes the member id, and may subscribe by a regular expression
(INVALID_REGULAR_EXPRESSION). Its topics are looked up after the response, and come with the group's next epoch. They
are looked up again at each heartbeat while topics or rights come and go, where Kafka looks in the background. As there,
an expression means no topic that the member may not describe whose heartbeat has it looked up. As in Kafka 4 a member
may join with an empty list of topics. What does not fit together is INVALID_REQUEST; UNSUPPORTED_VERSION where
`group.coordinator.rebalance.protocols` lacks "consumer".
"""

from functools import partial
from typing import Final

from minibroker.coordinators.groups.consumer.coordinator import ConsumerGroups, Heartbeat
from minibroker.coordinators.groups.modern.coordinator import Answer, GroupRefusedError
from minibroker.coordinators.groups.modern.group import AWAY, JOINING, LEAVING
from minibroker.coordinators.groups.modern.topics import partitions_of
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import checked, missing_to_subscribe
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.consumer_group import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_FIRST_WITH_OWN_MEMBER_IDS: Final = 1
_NOT_SAID: Final = -1


def _right_error(request: ConsumerGroupHeartbeatRequest, call: Call) -> ErrorCode:
    """A member may only subscribe to topics that it may describe."""
    return missing_to_subscribe(call, request.group_id, request.subscribed_topic_names or ())


NEEDS: Final = checked(_right_error, "READ on the group; DESCRIBE on all topics that the member subscribes to")


def handle(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse:
    """Answer at once: no member waits for another (`GroupMetadataManager.consumerGroupHeartbeat`)."""
    coordinator = call.services.groups
    consumers = coordinator.consumers
    if not consumers.is_enabled:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    try:
        _validate(request, call.api_version, consumers)
        code = coordinator.status(request.group_id, call.node)
        if code:
            return _refused(code)
        if request.member_epoch in {LEAVING, AWAY}:
            answer = consumers.leave(request.group_id, request.member_id, request.instance_id, request.member_epoch)
        else:
            answer = consumers.heartbeat(_heartbeat(request, call))
    except GroupRefusedError as error:
        return _refused(error.code, error.message)
    if request.member_epoch < 0:
        return _response(answer, 0)
    # Requests without an ApiVersions before them are of tests that compare the interval, Kafka's own among them.
    is_short = call.session.waited_fetches is not None
    return _response(answer, consumers.heartbeat_interval_ms(request.group_id, is_short_at_first=is_short))


def _validate(request: ConsumerGroupHeartbeatRequest, version: int, consumers: ConsumerGroups) -> None:
    """Raise GroupRefusedError for an invalid request."""
    epoch = request.member_epoch
    wrong = None
    unnamed = {JOINING, AWAY} if consumers.rules.since_4_0 else {JOINING}
    has_no_name = not request.member_id.strip() and (epoch not in unnamed or version >= _FIRST_WITH_OWN_MEMBER_IDS)
    if not request.group_id.strip():
        wrong = "GroupId can't be empty."
    elif _is_blank(request.instance_id) or _is_blank(request.rack_id):
        wrong = f"{'InstanceId' if _is_blank(request.instance_id) else 'RackId'} can't be empty."
    elif has_no_name:
        wrong = "MemberId can't be empty."
    elif epoch < AWAY:
        wrong = "MemberEpoch is invalid."
    elif epoch == AWAY and request.instance_id is None:
        wrong = "InstanceId can't be null."
    elif epoch == JOINING:
        wrong = _wrong_with_joining(request)
    if wrong is not None:
        raise GroupRefusedError(ErrorCode.INVALID_REQUEST, wrong)
    if request.server_assignor is not None and request.server_assignor not in consumers.assignors:
        known = ", ".join(consumers.assignors)
        raise GroupRefusedError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}.",
        )


def _is_blank(text: str | None) -> bool:
    """Return whether a text is there and has nothing but blanks."""
    return text is not None and not text.strip()


def _wrong_with_joining(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == _NOT_SAID:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _heartbeat(request: ConsumerGroupHeartbeatRequest, call: Call) -> Heartbeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return Heartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        None if names is None else frozenset(names),
        request.subscribed_topic_regex,
        request.server_assignor,
        None if owned is None else partitions_of(owned),
        call.client_id or "",
        call.client_host,
        partial(call.allows, Operation.DESCRIBE, ResourceType.TOPIC),
    )


def _response(answer: Answer, interval_ms: int) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        listed = [TopicPartitions(topic_id=id_, partitions=sorted(each)) for id_, each in answer.assignment.items()]
        assignment = Assignment(topic_partitions=listed)
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


def _refused(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )
