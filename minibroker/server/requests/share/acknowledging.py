"""Acknowledgements in ShareFetch and ShareAcknowledge requests: checking and applying them to share-partitions."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from minibroker.cluster.features import SHARE_VERSION
from minibroker.cluster.routing.slices import ForEach, then
from minibroker.coordinators.share_partitions.changes import Acknowledgement
from minibroker.coordinators.share_partitions.sessions import (
    FINAL_EPOCH,
    MemberKey,
    ShareSessionError,
    TopicIdPartition,
)
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import check_right
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.share_records import (
    AcknowledgedPartition,
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from minibroker_protocol.messages.share_records import PartitionData as FetchedPartition

_RENEW: Final = 4
_TYPES: Final = frozenset(range(4))
_TYPES_WITH_RENEWAL: Final = _TYPES | {_RENEW}
_FIRST_WITH_RENEWAL: Final = 2
_MAX_MEMBER_ID_LENGTH: Final = 36


def authorization_error(request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call) -> ErrorCode:
    """Return the error if a request names no group, or a group that the client may not read, otherwise NONE."""
    if request.group_id is None:
        return ErrorCode.INVALID_REQUEST
    return check_right(call, Operation.READ, ResourceType.GROUP, request.group_id)


def member_of(request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call) -> MemberKey:
    """Return the member that sent a request.

    Raises:
        ShareSessionError: UNSUPPORTED_VERSION if share groups are off, or INVALID_REQUEST if the group or a valid
            member id is missing.
    """
    group_id, member_id = request.group_id, request.member_id
    if not call.core.features.level(SHARE_VERSION):
        raise ShareSessionError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None or not member_id or len(member_id) > _MAX_MEMBER_ID_LENGTH:
        raise ShareSessionError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def hint_leader(
    key: TopicIdPartition, data: FetchedPartition | AcknowledgedPartition, call: Call, leaders: dict[int, NodeEndpoint]
) -> None:
    """Add the leader to the result for a client that sent its request to another broker (KIP-951)."""
    if data.error_code == int(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        topic = call.core.topics.with_id(key[0])
        partition = None if topic is None else topic.partition(key[1])
        if partition is not None:
            data.current_leader = call.hint_of(partition, leaders)


def acknowledge(
    request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call, member: MemberKey, conclude: Callable[..., Any]
) -> ForEach[Any]:
    """Apply the acknowledgements of a request partition by partition, and end the member's session if requested.

    Returns:
        Work that results in `conclude(outcomes)`, where `outcomes` has the outcome of each partition.
    """
    batches_by_key = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    if not isinstance(request, ShareAcknowledgeRequest):
        batches_by_key = {key: batches for key, batches in batches_by_key.items() if batches}

    def end(codes: list[ErrorCode]) -> Any:
        outcomes = dict(zip(batches_by_key, codes, strict=True))
        if request.share_session_epoch != FINAL_EPOCH:
            return conclude(outcomes)
        return then(call.services.share_partitions.release(call.node, [member]), lambda _: conclude(outcomes))

    return ForEach(batches_by_key.items(), lambda item: _acknowledge(request, item[0], item[1], call), end)


def _acknowledge(
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    key: TopicIdPartition,
    batches: Sequence[AcknowledgementBatch],
    call: Call,
) -> ErrorCode:
    topic = call.core.topics.with_id(key[0])
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    may_renew = call.api_version >= _FIRST_WITH_RENEWAL and request.is_renew_ack
    acknowledgements = _parse_batches(batches, may_renew=may_renew)
    if acknowledgements is None:
        return ErrorCode.INVALID_REQUEST
    code = check_right(call, Operation.READ, ResourceType.TOPIC, topic.name)
    if code or not batches:
        return code
    manager = call.services.share_partitions
    share_partition = manager.get(SharePartitionKey(request.group_id or "", *key), call.node)
    if share_partition is None or topic.partition(key[1]) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = share_partition.acknowledge(request.member_id or "", acknowledgements)
    if not code:
        manager.metrics.acknowledge(acknowledgements)
    return code


def _parse_batches(batches: Sequence[AcknowledgementBatch], *, may_renew: bool) -> list[Acknowledgement] | None:
    """Return the acknowledgements, or None if they are invalid (`validateAcknowledgementBatches`)."""
    allowed = _TYPES_WITH_RENEWAL if may_renew else _TYPES
    acknowledgements: list[Acknowledgement] = []
    previous_last, previous_type = -1, -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous_last or not types:
            return None
        if (len(types) > 1 and last - first != len(types) - 1) or not allowed.issuperset(types):
            return None
        # Skip a second renewal of the record that the previous batch renewed.
        if not (first == last == previous_last and previous_type == types[0] == _RENEW):
            acknowledgements.append(Acknowledgement(first, last, types))
        previous_last, previous_type = last, types[-1]
    return acknowledgements
