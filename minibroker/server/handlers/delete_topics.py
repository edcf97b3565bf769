"""DeleteTopics: topics vanish at once; their files are removed aside from the event loop.

Versions 0-6: by name, or from version 6 on by id (KIP-516). A topic that is named twice, in whatever way, is
INVALID_REQUEST and stays. POLICY_VIOLATION for all topics of a request with more than 10,000. What groups have
committed for a topic goes with it. Refused altogether with TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3)
when `delete.topic.enable` is false.
"""

from collections import Counter
from functools import partial
from typing import Final

from minibroker.cluster.directories import purge_logged
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.topic_admin import MAX_RECORDS, TOO_LARGE, TopicError, disk_refusal
from minibroker.cluster.topics import Topic
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.quota_mutations import count_mutation
from minibroker.server.requests.requirements import asked_by_handler
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minibroker_protocol.primitives import ZERO_UUID

_FIRST_STRICT: Final = 5
"""As in CreateTopics."""
_FIRST_WITH_DISABLED_ERROR: Final = 3
_Gone = tuple[Topic, list[str]]
_Named = Counter[tuple[str | None, bytes]]
"""The number of times that a request has each pair of name and id."""

NAMES: Final = topics_at("topics.name") | topics_at("topic_names")
NEEDS: Final = asked_by_handler("DELETE on the cluster or on each topic; DESCRIBE on each topic, to get its name")
DEADLINE: Final = "timeout_ms"


def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse | DelayedResponse:
    """Delete the topics that exist, and say for each whether it did."""
    states = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    if not call.core.config.boolean("delete.topic.enable"):
        code = (
            ErrorCode.TOPIC_DELETION_DISABLED
            if call.api_version >= _FIRST_WITH_DISABLED_ERROR
            else ErrorCode.INVALID_REQUEST
        )
        return DeleteTopicsResponse(
            responses=[_refusal(topic, code, "Topic deletion is disabled.") for topic in states]
        )
    if len(states) > MAX_RECORDS:
        return DeleteTopicsResponse(
            throttle_time_ms=call.session.muted_ms,
            responses=[_refusal(topic, ErrorCode.POLICY_VIOLATION, TOO_LARGE) for topic in states],
        )
    named = Counter((topic.name, topic.topic_id) for topic in states)
    results: list[DeletableTopicResult] = []
    gone: list[_Gone] = []
    for name, topic_id in named:
        results += _delete(DeleteTopicState(name=name, topic_id=topic_id), call, named, gone)
    if gone:
        left = call.core.topics.note_deleted(gone)
        call.core.background(partial(purge_logged, left))
        call.core.hooks.topics_deleted([topic.name for topic, _ in gone])
    return hold(DeleteTopicsResponse(throttle_time_ms=call.session.muted_ms, responses=results), request, call)


def _target(state: DeleteTopicState, call: Call) -> Topic | None:
    topics = call.core.topics
    return topics.get(state.name) if state.name is not None else topics.with_id(state.topic_id)


def _delete(state: DeleteTopicState, call: Call, named: _Named, gone: list[_Gone]) -> list[DeletableTopicResult]:
    """Take a topic away, which joins those that are `gone`. One that is named twice is refused, as in Kafka.

    Of a name and an id of the same topic only the name gets a result.
    """
    mistake = _mistake(state, named)
    if mistake is not None:
        return [_refusal(state, ErrorCode.INVALID_REQUEST, mistake)]
    topic = _target(state, call)
    refusal = _refusal_of_rights(state, topic, call)
    if refusal is not None:
        return [refusal]
    if topic is None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if state.name is not None else ErrorCode.UNKNOWN_TOPIC_ID
        return [_refusal(state, missing, missing.meaning)]
    if state.name is None and named[topic.name, ZERO_UUID] == 1:
        return []
    if state.name is not None and named[None, topic.id]:
        known = DeleteTopicState(name=state.name, topic_id=topic.id)
        reason = "The provided topic name maps to an ID that was already supplied."
        return [_refusal(known, ErrorCode.INVALID_REQUEST, reason)]
    return [_remove(topic, state, call, gone)]


def _mistake(state: DeleteTopicState, named: _Named) -> str | None:
    """Return what is wrong with the way in which a request names a topic."""
    if state.name is not None and state.topic_id != ZERO_UUID:
        return "You may not specify both topic name and topic id."
    if state.name is None and state.topic_id == ZERO_UUID:
        return "Neither topic name nor id were specified."
    if named[state.name, state.topic_id] > 1:
        return f"Duplicate topic {'id' if state.name is None else 'name'}."
    return None


def _refusal_of_rights(state: DeleteTopicState, topic: Topic | None, call: Call) -> DeletableTopicResult | None:
    """The refusal of a deletion without rights; it names the topic only if the client knows it, or may describe it."""
    name = state.name if topic is None else topic.name
    if name is None or call.allows(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    may_describe = call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if may_describe and (topic is None or call.allows(Operation.DELETE, ResourceType.TOPIC, name)):
        return None
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = DeleteTopicState(name=name, topic_id=state.topic_id) if may_describe else state
    return _refusal(known, code, code.meaning)


def _remove(topic: Topic, state: DeleteTopicState, call: Call, gone: list[_Gone]) -> DeletableTopicResult:
    try:
        count_mutation(call, len(topic.partitions), _FIRST_STRICT)
        gone.append((topic, call.core.topics.take_away(topic)))
    except TopicError as error:
        return _refusal(state, error.code, str(error))
    except OSError as error:
        refusal = disk_refusal(error)
        return DeletableTopicResult(
            name=topic.name, topic_id=topic.id, error_code=refusal.code, error_message=str(refusal)
        )
    call.core.topics.remember_deleted(topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE)


def _refusal(state: DeleteTopicState, code: ErrorCode, reason: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_code=code, error_message=reason)
