"""ShareFetch: acquire records for a member of a share group, acknowledge earlier ones (KIP-932).

Versions 1-2. A member's session names the partitions once: epoch 0 opens it, -1 closes it and gives back what the
member has acquired, and so does the loss of the connection that has opened it. SHARE_SESSION_NOT_FOUND,
INVALID_SHARE_SESSION_EPOCH; SHARE_SESSION_LIMIT_REACHED after `max_wait_ms`. Acknowledgements are written before
records are acquired. Records come in the log's own batches, with the offsets in them that the member has acquired.
Fewer than `min_bytes` wait for appends, and for records that others give back, at most `max_wait_ms`. From version 2
on a member may ask for no more than `max_records` (KIP-1206), and renew its locks (KIP-1222), which fetches nothing.

A group begins where `share.auto.offset.reset` says. With by_duration and no record that young it begins at the log's
end, where Kafka answers OFFSET_NOT_AVAILABLE until there is one. While the coordinator loads the state, the answer has
no records.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from minibroker.coordinators.share_partitions.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MemberKey,
    ShareSession,
    ShareSessionError,
    TopicIdPartition,
)
from minibroker.requests.call import Call
from minibroker.requests.declarations import Target, topics_at
from minibroker.requests.leader_hints import hint_of
from minibroker.requests.requirements import asked_by_handler, checked
from minibroker.requests.share.acknowledging import acknowledge, member_of, right_error
from minibroker.requests.share.delayed import DelayedShareFetch
from minibroker.requests.share.reader import ShareReader, failed
from minibroker.routing.outcomes import DelayedResponse
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.current_leader import NodeEndpoint
from minibroker_protocol.messages.share_fetch import (
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_FIRST_WITH_RENEWAL: Final = 2
_STEP: Final = 500
"""Partitions that are looked at in one step, where little is done for each."""
_LED_BY_ANOTHER: Final = frozenset({int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)})
_OF_RENEWAL: Final = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")


def _held_by_session(request: ShareFetchRequest, call: Call) -> tuple[Target, ...]:
    """A fetch in a session is about all partitions of the session."""
    group_id, member_id = request.group_id, request.member_id
    if not group_id or not member_id or request.share_session_epoch <= INITIAL_EPOCH:
        return ()
    session = call.services.share_partitions.sessions(call.node).get((group_id, member_id))
    if session is None:
        return ()
    gone = {(each.topic_id, index) for each in request.forgotten_topics_data for index in each.partitions}
    topics = call.core.topics
    targets = (
        Target(None if (topic := topics.with_id(topic_id)) is None else topic.name, index, group=group_id)
        for topic_id, index in session.partitions
        if (topic_id, index) not in gone
    )
    return tuple(dict.fromkeys(targets))


NAMES: Final = topics_at("topics.topic_id", "partitions.partition_index", implied=_held_by_session)
NEEDS: Final = checked(right_error, "READ on the group") & asked_by_handler("READ on each topic")


def handle(request: ShareFetchRequest, call: Call) -> Steps[ShareFetchResponse | DelayedResponse]:
    """Acknowledge, then acquire; park while there is too little (`KafkaApis.handleShareFetchRequest`)."""
    is_renewal = call.api_version >= _FIRST_WITH_RENEWAL and request.is_renew_ack
    try:
        member = member_of(request, call)
        if is_renewal and any(getattr(request, name) for name in _OF_RENEWAL):
            return refuse(request, call.api_version, ErrorCode.INVALID_REQUEST)
        session = yield from _session(request, member, call)
    except ShareSessionError as error:
        refused = refuse(request, call.api_version, error.code)
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
            return _IdleShareFetch(refused, request.max_wait_ms, call)
        return refused
    outcomes = yield from acknowledge(request, call)
    if request.share_session_epoch == FINAL_EPOCH:
        yield  # each step of the release takes some milliseconds
        yield from call.services.share_partitions.release(call.node, member)
    answer = _Answer(request, call, session, outcomes)
    if is_renewal or request.share_session_epoch == FINAL_EPOCH or not request.max_records or not request.max_bytes:
        return (yield from answer({}))
    reader = ShareReader(request, call, session.in_turn(request.share_session_epoch))
    yield from reader.load()
    is_last = request.max_wait_ms <= 0 or reader.has_nothing_to_wait_for
    results = yield from reader.attempt(is_last=is_last)
    if results is None:
        return DelayedShareFetch(request, call, reader, answer)
    return (yield from answer(results))


def refuse(request: ShareFetchRequest, version: int, code: ErrorCode) -> ShareFetchResponse:  # noqa: ARG001 - as all such functions
    """A response with nothing but the error of the whole request."""
    return ShareFetchResponse(error_code=code, responses=[], node_endpoints=[])


def _session(request: ShareFetchRequest, member: MemberKey, call: Call) -> Steps[ShareSession]:
    """The session that the request opens, goes on with, or ends. ShareSessionError."""
    manager = call.services.share_partitions
    sessions = manager.sessions(call.node)
    named: dict[TopicIdPartition, bool] = {}
    acknowledges = False
    for topic in request.topics:
        for count, each in enumerate(topic.partitions, 1):
            named[topic.topic_id, each.partition_index] = False
            acknowledges |= bool(each.acknowledgement_batches)
            if not count % _STEP:
                yield
    if request.share_session_epoch != INITIAL_EPOCH:
        session = sessions.next(member, request.share_session_epoch)
        if request.share_session_epoch != FINAL_EPOCH:
            forgotten = [(each.topic_id, index) for each in request.forgotten_topics_data for index in each.partitions]
            session.update(named, forgotten)
        return session
    if acknowledges:
        raise ShareSessionError(ErrorCode.INVALID_REQUEST)
    session = sessions.open(member, (), call.session)
    session.partitions = named  # as it is: to copy 200,000 partitions takes 15 ms
    if not call.session.ends:  # once for all sessions of the connection
        call.session.ends = (partial(manager.connection_lost, call.node, call.session),)
    return session


class _Answer:
    """Makes the response of what was acquired and acknowledged."""

    def __init__(
        self,
        request: ShareFetchRequest,
        call: Call,
        session: ShareSession,
        outcomes: Mapping[TopicIdPartition, ErrorCode],
    ) -> None:
        self._request = request
        self._call = call
        self._session = session
        self._outcomes = outcomes

    def __call__(self, results: Mapping[TopicIdPartition, PartitionData]) -> Steps[ShareFetchResponse]:
        is_first = self._request.share_session_epoch == INITIAL_EPOCH
        tells = self._session.has_to_tell
        served: set[TopicIdPartition] = set()
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        leaders: dict[int, NodeEndpoint] = {}
        for count, (key, data) in enumerate(results.items(), 1):
            has_records = bool(data.acquired_records)
            if has_records:
                served.add(key)
            has_to_tell = is_first or tells(key, has_records=has_records, has_failed=bool(data.error_code))
            if has_to_tell or key in self._outcomes:
                self._add(key, data, topics, leaders)
            if not count % _STEP:
                yield
        self._session.served = served
        for count, key in enumerate(self._outcomes, 1):
            if key not in results:
                self._add(key, failed(key[1], ErrorCode.NONE), topics, leaders)
            if not count % _STEP:
                yield
        return self._throttled(
            ShareFetchResponse(
                error_code=ErrorCode.NONE,
                acquisition_lock_timeout_ms=self._call.services.share_partitions.limits(
                    self._request.group_id or ""
                ).lock_ms,
                responses=list(topics.values()),
                node_endpoints=list(leaders.values()),
            )
        )

    def _add(
        self,
        key: TopicIdPartition,
        data: PartitionData,
        topics: dict[bytes, ShareFetchableTopicResponse],
        leaders: dict[int, NodeEndpoint],
    ) -> None:
        """Have the member hear of a partition."""
        code = self._outcomes.get(key)
        if code is not None:
            data.acknowledge_error_code = code
            data.acknowledge_error_message = code.meaning if code else None
        self._hint(key, data, leaders)
        topic = topics.get(key[0])
        if topic is None:
            topic = topics[key[0]] = ShareFetchableTopicResponse(topic_id=key[0], partitions=[])
        topic.partitions.append(data)

    def _hint(self, key: TopicIdPartition, data: PartitionData, leaders: dict[int, NodeEndpoint]) -> None:
        """Name the leader to a client that has asked another broker (KIP-951)."""
        if data.error_code in _LED_BY_ANOTHER:
            topic = self._call.core.topics.with_id(key[0])
            place = None if topic is None else topic.partition(key[1])
            if place is not None:
                data.current_leader = hint_of(place, self._call, leaders)

    def _throttled(self, response: ShareFetchResponse) -> ShareFetchResponse:
        """The response, whose bytes count for the client's quota; the connection rests when there are too many."""
        call = self._call
        quotas = call.services.quotas
        if quotas is not None:
            quotas.share_fetched(response, call.session, call.client_id, call.api_version)
        return response


class _IdleShareFetch(DelayedResponse):
    """A refusal that keeps a client waiting, which would ask again at once."""

    def __init__(self, refused: ShareFetchResponse, wait_ms: int, call: Call) -> None:
        self._timer = call.core.clock.call_later(wait_ms, lambda: self.deliver(refused))

    def cancel(self) -> None:
        """The client has gone."""
        self._timer.cancel()
