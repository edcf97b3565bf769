"""Error responses of injected faults: to a whole request, or to the parts that a fault is about.

`server/requests/refusals.py` gives them their form. What the fault is about is not served, and its errors stand beside
the answers to the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.cluster.routing.slices import Steps, result_of
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.merging import MergedAnswer, merged
from minibroker.server.requests.refusals import error_answer, part_answer
from minibroker.server.requests.targets import only
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import first_version

with lazy:
    from minibroker_protocol.messages import fetch

if TYPE_CHECKING:
    from minibroker.server.faults.fault import Fault
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.endpoints import Endpoint
    from minibroker_protocol.error_codes import ErrorCode

Serve = Callable[[Any], Any]
"""Hands a request to its handler; returns what the handler returns, which may be steps."""


def refuse(
    fault: Fault, endpoint: Endpoint, request: Any, targets: tuple[Target, ...], call: Call, serve: Serve
) -> Steps[tuple[Any, bool]]:
    """(what a handler would return, whether an error is in it) for a request that a fault with `error` hits.

    UnservedRequestError for a produce request without acks: an error closes its connection, as in Kafka.
    """
    code, key = cast("ErrorCode", fault.error), endpoint.route.key
    if key is ApiKey.METADATA:
        return (yield from _refuse_metadata(fault, endpoint, request, call, serve))
    if key is ApiKey.FETCH and fault.is_partial:
        return (yield from _refuse_fetched(fault, endpoint, request, targets, call, serve))
    make = part_answer if fault.is_partial else error_answer
    hit = [each for each in targets if fault.is_about(each)]
    if len(hit) == len(targets):
        _check_acks(endpoint, request, code)
        return make(endpoint, request, call.api_version, code), True
    refused = only(endpoint.names, request, fault.is_about, call.core)
    errors = make(endpoint, refused, call.api_version, code)
    rest = only(endpoint.names, request, lambda target: not fault.is_about(target), call.core)
    served = yield from result_of(serve(rest))
    if isinstance(served, DelayedResponse):
        return MergedAnswer(served, lambda response: merged(response, errors)), True
    _check_acks(endpoint, request, code)
    return merged(served, errors), True


def _check_acks(endpoint: Endpoint, request: Any, code: ErrorCode) -> None:
    if endpoint.route.key is ApiKey.PRODUCE and request.acks == 0:
        raise UnservedRequestError(f"produce with acks=0 failed: a fault answers {code.name}")


def _refuse_metadata(
    fault: Fault, endpoint: Endpoint, request: Any, call: Call, serve: Serve
) -> Steps[tuple[Any, bool]]:
    """The response still names the brokers, or the client would not know where to ask again."""
    code, names = cast("ErrorCode", fault.error), endpoint.names
    if fault.partition is not None:
        response = yield from result_of(serve(request))
        found = False
        for topic in response.topics:
            if fault.is_about(Target(topic.name)):
                number = fault.partition
                found |= any(each.partition_index == number for each in topic.partitions)
                topic.partitions = [
                    replace(each, error_code=code, leader_id=-1) if each.partition_index == number else each
                    for each in topic.partitions
                ]
        return response, found
    kept = only(names, request, lambda target: not fault.is_about(target), call.core)
    response = yield from result_of(serve(kept))
    refused = only(names, request, fault.is_about, call.core) if request.topics else request
    errors = error_answer(endpoint, refused, call.api_version, code).topics
    asked_for = {each.name for each in errors}
    served: list[Any] = []
    for topic in response.topics:
        if not fault.is_about(Target(topic.name)):
            served.append(topic)
        elif topic.name not in asked_for and not request.topics:  # a request for all topics
            errors.append(replace(topic, error_code=code, partitions=[]))
    response.topics = [*served, *errors]
    return response, bool(errors)


def _refuse_fetched(
    fault: Fault, endpoint: Endpoint, request: Any, targets: tuple[Target, ...], call: Call, serve: Serve
) -> Steps[tuple[Any, bool]]:
    """As Kafka, which answers at once when there is an error to tell."""
    response = yield from result_of(serve(replace(request, max_wait_ms=0)))
    if response.error_code:
        return response, False
    hit = [each for each in targets if fault.is_about(each) and None not in {each.topic, each.partition}]
    names = {(each.topic, each.partition) for each in hit}
    for topic in response.responses:
        topic.partitions = [each for each in topic.partitions if (topic.topic, each.partition_index) not in names]
    response.responses = [topic for topic in response.responses if topic.partitions]
    session = call.node.fetch_sessions.get(response.session_id)
    asked: dict[tuple[str, bytes | None], list[int]] = {}
    for each in hit:
        name, index = cast("str", each.topic), cast("int", each.partition)
        topic_id = _topic_id(name, call)
        if session is not None:
            session.forget((topic_id or name, index))
        asked.setdefault((name, topic_id), []).append(index)
    errors = part_answer(endpoint, _fetch_of(request, asked), call.api_version, cast("ErrorCode", fault.error))
    return merged(response, errors), bool(hit)


def _topic_id(name: str, call: Call) -> bytes | None:
    """The id of a topic, if that is what this fetch goes by."""
    goes_by_ids = call.api_version >= first_version(fetch.FetchTopic, "topic_id")
    topic = call.core.topics.get(name) if goes_by_ids else None
    return None if topic is None else topic.id


def _fetch_of(request: Any, asked: dict[tuple[str, bytes | None], list[int]]) -> Any:
    """The request for these partitions alone."""
    topics = [
        fetch.FetchTopic(
            topic=name,
            topic_id=topic_id or ZERO_UUID,
            partitions=[
                fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=0) for index in indexes
            ],
        )
        for (name, topic_id), indexes in asked.items()
    ]
    return replace(request, topics=topics)
