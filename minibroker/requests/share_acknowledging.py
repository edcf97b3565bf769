"""Acknowledgements in ShareFetch and ShareAcknowledge requests: checked, and handed to the share-partitions."""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker.cluster.features import SHARE_VERSION
from minibroker.coordinators.share_partitions.acknowledging import Acknowledgement
from minibroker.coordinators.share_partitions.sessions import MemberKey, ShareSessionError, TopicIdPartition
from minibroker.coordinators.share_state.state import SharePartitionKey
from minibroker.requests.call import Call
from minibroker.requests.requirements import missing
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from minibroker_protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest

_RENEW: Final = 4
_LAST_TYPE: Final = 3
_FIRST_WITH_RENEWAL: Final = 2
_LONGEST_MEMBER_ID: Final = 36


def right_error(request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call) -> ErrorCode:
    """The error for a request that names no group, or one that the client may not read."""
    if request.group_id is None:
        return ErrorCode.INVALID_REQUEST
    return missing(call, Operation.READ, ResourceType.GROUP, request.group_id)


def member_of(request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call) -> MemberKey:
    """The member that sends a request.

    ShareSessionError: UNSUPPORTED_VERSION where share groups are off, INVALID_REQUEST without a group or a possible id.
    """
    group_id, member_id = request.group_id, request.member_id
    if not call.core.features.level(SHARE_VERSION):
        raise ShareSessionError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None or not member_id or len(member_id) > _LONGEST_MEMBER_ID:
        raise ShareSessionError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def acknowledge(
    request: ShareFetchRequest | ShareAcknowledgeRequest, call: Call
) -> Steps[dict[TopicIdPartition, ErrorCode]]:
    """Acknowledge what a request names, partition by partition; the outcome for each of them."""
    named: dict[TopicIdPartition, Sequence[AcknowledgementBatch]] = {
        (topic.topic_id, each.partition_index): each.acknowledgement_batches
        for topic in request.topics
        for each in topic.partitions
    }
    return (yield from _acknowledge_all(request, named, call))


def _acknowledge_all(
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    named: Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]],
    call: Call,
) -> Steps[dict[TopicIdPartition, ErrorCode]]:
    outcomes: dict[TopicIdPartition, ErrorCode] = {}
    for key, batches in named.items():
        if not batches and isinstance(request, ShareFetchRequest):
            continue
        outcomes[key] = _acknowledge(request, key, batches, call)
        yield
    return outcomes


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
    if not _are_valid(batches, may_renew=may_renew):
        return ErrorCode.INVALID_REQUEST
    code = missing(call, Operation.READ, ResourceType.TOPIC, topic.name)
    if code or not batches:
        return code
    share_key = SharePartitionKey(request.group_id or "", *key)
    found = call.services.share_partitions.get(share_key, call.node)
    if found is None or topic.partition(key[1]) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return found.acknowledge(
        request.member_id or "",
        [Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches],
    )


def _are_valid(batches: Sequence[AcknowledgementBatch], *, may_renew: bool) -> bool:
    """Whether batches are in order, and have types for their offsets (`validateAcknowledgementBatches`)."""
    before = -1
    for each in batches:
        types = each.acknowledge_types
        if each.first_offset > each.last_offset or each.first_offset < before or not types:
            return False
        if len(types) > 1 and each.last_offset - each.first_offset != len(types) - 1:
            return False
        if any(not 0 <= kind <= _LAST_TYPE and not (may_renew and kind == _RENEW) for kind in types):
            return False
        before = each.last_offset
    return True
