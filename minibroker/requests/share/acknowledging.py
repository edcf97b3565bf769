"""Acknowledgements in ShareFetch and ShareAcknowledge requests: checked, and handed to the share-partitions."""

from collections.abc import Sequence
from typing import Final

from minibroker.cluster.features import SHARE_VERSION
from minibroker.coordinators.share_partitions.acknowledging import Acknowledgement, split
from minibroker.coordinators.share_partitions.many_acknowledgements import acknowledge_in_steps
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
_TYPES: Final = frozenset(range(4))
_TYPES_WITH_RENEWAL: Final = _TYPES | {_RENEW}
_STEP: Final = 500
"""Partitions and batches that are looked at in one step."""
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
    named: dict[TopicIdPartition, Sequence[AcknowledgementBatch]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            named[topic.topic_id, each.partition_index] = each.acknowledgement_batches
            if not len(named) % _STEP:
                yield
    outcomes: dict[TopicIdPartition, ErrorCode] = {}
    for key, batches in named.items():
        if batches or isinstance(request, ShareAcknowledgeRequest):
            outcomes[key] = yield from _acknowledge(request, key, batches, call)
        yield
    return outcomes


def _acknowledge(
    request: ShareFetchRequest | ShareAcknowledgeRequest,
    key: TopicIdPartition,
    batches: Sequence[AcknowledgementBatch],
    call: Call,
) -> Steps[ErrorCode]:
    topic = call.core.topics.with_id(key[0])
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    may_renew = call.api_version >= _FIRST_WITH_RENEWAL and request.is_renew_ack
    acknowledgements = yield from _checked(batches, may_renew=may_renew)
    if acknowledgements is None:
        return ErrorCode.INVALID_REQUEST
    code = missing(call, Operation.READ, ResourceType.TOPIC, topic.name)
    if code or not batches:
        return code
    share_key = SharePartitionKey(request.group_id or "", *key)
    manager = call.services.share_partitions
    found = manager.get(share_key, call.node)
    if found is None or topic.partition(key[1]) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = yield from acknowledge_in_steps(found, request.member_id or "", acknowledgements)
    if not code:
        manager.measured.acknowledge(acknowledgements)
    return code


def _checked(batches: Sequence[AcknowledgementBatch], *, may_renew: bool) -> Steps[list[Acknowledgement] | None]:
    """The acknowledgements; None if they are not in order, or lack types (`validateAcknowledgementBatches`)."""
    allowed = _TYPES_WITH_RENEWAL if may_renew else _TYPES
    found: list[Acknowledgement] = []
    before, kind_before = -1, -1
    for count, each in enumerate(batches, 1):
        first, last, types = each.first_offset, each.last_offset, each.acknowledge_types
        if first > last or first < before or not types:
            return None
        if (len(types) > 1 and last - first != len(types) - 1) or not allowed.issuperset(types):
            return None
        if not (first == last == before and kind_before == types[0] == _RENEW):  # else it was just renewed
            found += split(Acknowledgement(first, last, types))
        before, kind_before = last, types[-1]
        if not count % _STEP:
            yield
    return found
