"""DeleteTopics: topics vanish at once; their files are removed aside from the event loop.

Versions 0-6: by name, or from version 6 on by id (KIP-516). A topic that is named twice, in whatever way, is
INVALID_REQUEST and stays. What groups have committed for a topic goes with it. Refused altogether with
TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3) when `delete.topic.enable` is false.
"""

from collections import Counter
from functools import partial
from typing import Final

from minibroker.api.delayed import DelayedResponse
from minibroker.cluster.deletion import purge_logged
from minibroker.cluster.topics import Topic
from minibroker.requests.call import Call
from minibroker.requests.declarations import topics_at
from minibroker.requests.delayed_responses import hold
from minibroker.requests.quota_mutations import count_mutation
from minibroker.requests.requirements import asked_by_handler
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.support.slices import Steps
from minibroker.topic_admin import TopicError, disk_refusal
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delete_topics import (
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

NAMES: Final = topics_at("topics.name") | topics_at("topic_names")
NEEDS: Final = asked_by_handler("DELETE on the cluster or on each topic; DESCRIBE on each topic, to be told its name")


def handle(request: DeleteTopicsRequest, call: Call) -> Steps[DeleteTopicsResponse | DelayedResponse]:
    """Delete the topics that exist, and say for each whether it did."""
    wanted = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    if not call.core.config.boolean("delete.topic.enable"):
        code = (
            ErrorCode.TOPIC_DELETION_DISABLED
            if call.api_version >= _FIRST_WITH_DISABLED_ERROR
            else ErrorCode.INVALID_REQUEST
        )
        return DeleteTopicsResponse(
            responses=[_refusal(topic, code, "Topic deletion is disabled.") for topic in wanted]
        )
    named = Counter(filter(None, (_target(topic, call) for topic in wanted)))
    distinct = {(topic.name, topic.topic_id): topic for topic in wanted}
    results: list[DeletableTopicResult] = []
    gone: list[_Gone] = []
    try:
        for each in distinct.values():
            results.append(_delete(each, call, named, gone))
            yield
    finally:
        if gone:
            left = call.core.topics.note_deleted(gone)
            call.core.background(partial(purge_logged, left))
    deleted = [result.name for result in results if result.name is not None and not result.error_code]
    if deleted:
        call.core.hooks.topics_deleted(deleted)
    return hold(DeleteTopicsResponse(throttle_time_ms=call.session.muted_ms, responses=results), request, call)


def _target(wanted: DeleteTopicState, call: Call) -> Topic | None:
    topics = call.core.topics
    return topics.get(wanted.name) if wanted.name is not None else topics.with_id(wanted.topic_id)


def _delete(wanted: DeleteTopicState, call: Call, named: Counter[Topic], gone: list[_Gone]) -> DeletableTopicResult:
    """Take a topic away, which joins those that are `gone`."""
    if wanted.name is not None and wanted.topic_id != ZERO_UUID:
        return _refusal(wanted, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if wanted.name is None and wanted.topic_id == ZERO_UUID:
        return _refusal(wanted, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = _target(wanted, call)
    refusal = _refusal_of_rights(wanted, topic, call)
    if refusal is not None:
        return refusal
    if topic is None:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wanted.name is not None else ErrorCode.UNKNOWN_TOPIC_ID
        return _refusal(wanted, missing, missing.meaning)
    if named[topic] > 1:
        return _refusal(wanted, ErrorCode.INVALID_REQUEST, "The topic is named more than once.")
    return _remove(topic, wanted, call, gone)


def _refusal_of_rights(wanted: DeleteTopicState, topic: Topic | None, call: Call) -> DeletableTopicResult | None:
    """What is said to who may not delete a topic: its name only if the client knows it, or may describe it."""
    name = wanted.name if topic is None else topic.name
    if name is None or call.allows(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        return None
    may_describe = call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if may_describe and (topic is None or call.allows(Operation.DELETE, ResourceType.TOPIC, name)):
        return None
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = DeleteTopicState(name=name, topic_id=wanted.topic_id) if may_describe else wanted
    return _refusal(known, code, code.meaning)


def _remove(topic: Topic, wanted: DeleteTopicState, call: Call, gone: list[_Gone]) -> DeletableTopicResult:
    try:
        count_mutation(call, len(topic.partitions), _FIRST_STRICT)
        gone.append((topic, call.core.topics.take_away(topic)))
    except TopicError as error:
        return _refusal(wanted, error.code, str(error))
    except OSError as error:
        refusal = disk_refusal(error)
        return DeletableTopicResult(
            name=topic.name, topic_id=topic.id, error_code=refusal.code, error_message=str(refusal)
        )
    call.core.topics.remember_deleted(topic.name)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE)


def _refusal(wanted: DeleteTopicState, code: ErrorCode, reason: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id, error_code=code, error_message=reason)
