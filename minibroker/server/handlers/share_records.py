"""Handlers that fetch and acknowledge the records of share groups (KIP-932)."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.slices import Served, then
from minibroker.coordinators.share_partitions.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MemberKey,
    ShareSession,
    ShareSessionError,
    TopicIdPartition,
)
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import Target, handles, topics_at
from minibroker.server.requests.requirements import asked_by_handler, on_request
from minibroker.server.requests.share import (
    DelayedShareFetch,
    ShareReader,
    acknowledge,
    authorization_error,
    failed,
    hint_leader,
    member_of,
)
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.share_records import (
    AcknowledgedPartition,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_FIRST_WITH_RENEWAL: Final = 2
_ZERO_IN_RENEWAL: Final = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")


def _session_partitions(request: ShareFetchRequest, call: Call) -> tuple[Target, ...]:
    """Return the partitions of the request's session."""
    group_id, member_id = request.group_id, request.member_id
    if not group_id or not member_id or request.share_session_epoch <= INITIAL_EPOCH:
        return ()
    session = call.services.share_partitions.sessions(call.node).get((group_id, member_id))
    if session is None:
        return ()
    forgotten_keys = {
        (forgotten.topic_id, index) for forgotten in request.forgotten_topics_data for index in forgotten.partitions
    }
    topics = call.core.topics
    targets = (
        Target(None if (topic := topics.with_id(topic_id)) is None else topic.name, index, group=group_id)
        for topic_id, index in session.partitions
        if (topic_id, index) not in forgotten_keys
    )
    return tuple(dict.fromkeys(targets))


@handles(
    ApiKey.SHARE_FETCH,
    needs=on_request(authorization_error, "READ on the group") & asked_by_handler("READ on each topic"),
    names=topics_at("topics.topic_id", "partitions.partition_index", implied=_session_partitions),
)
def share_fetch(request: ShareFetchRequest, call: Call) -> Served[ShareFetchResponse | DelayedResponse]:
    """ShareFetch: acquire records for a member of a share group, and acknowledge earlier ones (KIP-932).

    Versions 1-2 are served (`KafkaApis.handleShareFetchRequest`). Acknowledgements are written before records are
    acquired. Whole batches of the log are returned, along with the offsets in them that the member has acquired. If
    fewer than `min_bytes` are available, a fetch waits for appends and released records, for at most `max_wait_ms`.
    Since version 2 a member can limit the records strictly to `max_records` (KIP-1206) and renew its locks
    (KIP-1222). A renewal fetches nothing.

    A member's session remembers its partitions, which are named only once. Epoch 0 opens the session, and -1 closes
    it and releases the acquired records. Losing the connection that opened the session does the same.

    `share.auto.offset.reset` determines where a group starts reading. If it is by_duration and there is no record
    that recent, the group starts at the end of the log, while Kafka returns OFFSET_NOT_AVAILABLE until there is
    one. While the share coordinator loads the state, the response has no records.

    Error codes:

    - SHARE_SESSION_NOT_FOUND: the member has no session.
    - INVALID_SHARE_SESSION_EPOCH: the epoch is not the session's next one.
    - SHARE_SESSION_LIMIT_REACHED: there are too many sessions. This response is sent after `max_wait_ms`.
    """
    is_renewal = call.api_version >= _FIRST_WITH_RENEWAL and request.is_renew_ack
    member = member_of(request, call)
    if is_renewal and any(getattr(request, name) for name in _ZERO_IN_RENEWAL):
        raise ShareSessionError(ErrorCode.INVALID_REQUEST)
    try:
        session = _open_session(request, member, call)
    except ShareSessionError as error:
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
            raise
        return _IdleShareFetch(error.code, request.max_wait_ms, call)
    fetches = (
        not is_renewal and request.share_session_epoch != FINAL_EPOCH and request.max_records and request.max_bytes
    )

    def fetch_after_acknowledging(outcomes: dict[TopicIdPartition, ErrorCode]) -> Any:
        answer = partial(_build_answer, request, call, session, outcomes)
        if not fetches:
            return answer({})
        reader = ShareReader(request, call, session.fetch_order(request.share_session_epoch))
        return then(
            reader.attempt(is_last=request.max_wait_ms <= 0),
            lambda results: DelayedShareFetch(request, call, reader, answer) if results is None else answer(results),
        )

    return acknowledge(request, call, member, fetch_after_acknowledging)


def _open_session(request: ShareFetchRequest, member: MemberKey, call: Call) -> ShareSession:
    """Open, continue or end the session of a request, and return the session.

    Raises:
        ShareSessionError: The session does not exist, has another epoch, or cannot be opened.
    """
    manager = call.services.share_partitions
    sessions = manager.sessions(call.node)
    partitions = dict.fromkeys(
        ((topic.topic_id, requested.partition_index) for topic in request.topics for requested in topic.partitions),
        False,
    )
    if request.share_session_epoch != INITIAL_EPOCH:
        session = sessions.next(member, request.share_session_epoch)
        if request.share_session_epoch != FINAL_EPOCH:
            forgotten = [
                (requested.topic_id, index)
                for requested in request.forgotten_topics_data
                for index in requested.partitions
            ]
            session.update(partitions, forgotten)
        return session
    if any(requested.acknowledgement_batches for topic in request.topics for requested in topic.partitions):
        raise ShareSessionError(ErrorCode.INVALID_REQUEST)
    session = sessions.open(member, (), call.session)
    session.partitions = partitions  # The dict is assigned directly, because copying 200,000 partitions takes 15 ms.
    if not call.session.ends:  # One callback suffices for all sessions of the connection.
        call.session.ends = (partial(manager.connection_lost, call.node, call.session),)
    return session


def _build_answer(
    request: ShareFetchRequest,
    call: Call,
    session: ShareSession,
    outcomes: Mapping[TopicIdPartition, ErrorCode],
    results: Mapping[TopicIdPartition, PartitionData],
) -> ShareFetchResponse:
    """Return the response with acquired records (`results`) and acknowledgements (`outcomes`)."""
    is_first = request.share_session_epoch == INITIAL_EPOCH
    reported: dict[TopicIdPartition, PartitionData] = {}
    for key, data in results.items():
        has_records, has_failed = bool(data.acquired_records), bool(data.error_code)
        if is_first or session.is_in_response(key, has_records=has_records, has_failed=has_failed) or key in outcomes:
            reported[key] = data
    session.served = {key for key, data in results.items() if data.acquired_records}
    for key, code in outcomes.items():
        data = reported[key] if key in reported else reported.setdefault(key, failed(key[1], ErrorCode.NONE))
        data.acknowledge_error_code = code
        data.acknowledge_error_message = code.meaning if code else None
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    leaders: dict[int, NodeEndpoint] = {}
    for key, data in reported.items():
        hint_leader(key, data, call, leaders)
        topic = topics.get(key[0])
        if topic is None:
            topic = topics[key[0]] = ShareFetchableTopicResponse(topic_id=key[0], partitions=[])
        topic.partitions.append(data)
    response = ShareFetchResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=call.services.share_partitions.limits(request.group_id or "").lock_ms,
        responses=list(topics.values()),
        node_endpoints=list(leaders.values()),
    )
    quotas = call.services.quotas
    if quotas is not None:  # Recording the response mutes a connection that is over its quota.
        quotas.charge_share_fetch(response, call.session, call.client_id, call.api_version)
    return response


class _IdleShareFetch(DelayedResponse):
    """A delayed refusal, for a client that would otherwise retry immediately."""

    def __init__(self, code: ErrorCode, wait_ms: int, call: Call) -> None:
        refused = ShareFetchResponse(error_code=code, responses=[], node_endpoints=[])
        self._timer = call.core.clock.call_later(wait_ms, lambda: self.deliver(refused))

    def cancel(self) -> None:
        """Cancel the request because its client disconnected."""
        self._timer.cancel()


@handles(
    ApiKey.SHARE_ACKNOWLEDGE,
    needs=on_request(authorization_error, "READ on the group") & asked_by_handler("READ on each topic"),
    names=topics_at("topics.topic_id", "partitions.partition_index"),
)
def share_acknowledge(request: ShareAcknowledgeRequest, call: Call) -> Served[ShareAcknowledgeResponse]:
    """ShareAcknowledge: acknowledge records of a share group without a fetch (KIP-932).

    Versions 1-2 are served (`KafkaApis.handleShareAcknowledgeRequest`). Records are accepted, released, rejected,
    or since version 2 locked for longer (KIP-1222). The state is written before the response. Epoch -1 ends the
    member's session and releases the records that the member still holds.

    Error codes:

    - INVALID_RECORD_STATE: the member has not acquired the records, or no longer holds them.
    - UNKNOWN_TOPIC_OR_PARTITION: no member of the group has fetched from the partition.
    """
    member = member_of(request, call)
    if request.share_session_epoch == INITIAL_EPOCH:
        raise ShareSessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    call.services.share_partitions.sessions(call.node).next(member, request.share_session_epoch)
    return acknowledge(request, call, member, partial(_build_acknowledge_response, call, member))


def _build_acknowledge_response(
    call: Call, member: MemberKey, outcomes: Mapping[TopicIdPartition, ErrorCode]
) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: dict[int, NodeEndpoint] = {}
    for (topic_id, index), code in outcomes.items():
        data = AcknowledgedPartition(
            partition_index=index, error_code=code, error_message=code.meaning if code else None
        )
        hint_leader((topic_id, index), data, call, leaders)
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[]))
        topic.partitions.append(data)
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=call.services.share_partitions.limits(member[0]).lock_ms,
        responses=list(topics.values()),
        node_endpoints=list(leaders.values()),
    )
