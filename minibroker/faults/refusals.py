"""How requests are answered with an error: as a whole, or where a fault is about some of what they name.

What the fault is about is not served, and its errors stand beside the answers to the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.call import Parked, UnservedRequestError
from minibroker.faults.error_answers import error_answer, fetch_error, merged, part_answer
from minibroker.requests.targets import Target, only
from minibroker.slices import Steps, result_of
from minibroker_protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from minibroker.call import Call
    from minibroker.faults.fault import Fault
    from minibroker_protocol.error_codes import ErrorCode

_FIRST_FETCH_WITH_IDS: Final = 13
Serve = Callable[[Any], Any]
"""Hands a request to its handler; returns what the handler returns, which may be steps."""


class MergedAnswer(Parked):
    """The answer of a handler that takes its time, with errors to be added."""

    def __init__(self, inner: Parked, change: Callable[[Any], Any]) -> None:
        self._inner = inner
        inner.deliver = lambda response: self.deliver(change(response))

    def cancel(self) -> None:
        """The client has gone."""
        self._inner.cancel()


def refuse(
    fault: Fault, api: str, request: Any, targets: tuple[Target, ...], call: Call, serve: Serve
) -> Steps[tuple[Any, bool]]:
    """(what a handler would return, whether an error is in it) for a request that a fault with `error` hits.

    UnservedRequestError for a produce request without acks: an error closes its connection, as in Kafka.
    """
    code = cast("ErrorCode", fault.error)
    if api == "Metadata":
        return (yield from _refuse_metadata(fault, code, request, call, serve))
    if api == "Fetch" and fault.is_partial:
        return (yield from _refuse_fetched(fault, code, request, targets, call, serve))
    hit = [each for each in targets if fault.is_about(each)]
    if len(hit) == len(targets):
        _check_acks(api, request, code)
        make = part_answer if fault.is_partial else error_answer
        return make(api, request, call.api_version, code), True
    refused = only(api, request, fault.is_about, call.core)
    make = part_answer if fault.is_partial else error_answer
    errors = make(api, refused, call.api_version, code)
    served = yield from result_of(serve(only(api, request, lambda target: not fault.is_about(target), call.core)))
    if isinstance(served, Parked):
        return MergedAnswer(served, lambda response: merged(response, errors)), True
    _check_acks(api, request, code)
    return merged(served, errors), True


def _check_acks(api: str, request: Any, code: ErrorCode) -> None:
    if api == "Produce" and request.acks == 0:
        raise UnservedRequestError(f"produce with acks=0 failed: a fault answers {code.name}")


def _refuse_metadata(fault: Fault, code: ErrorCode, request: Any, call: Call, serve: Serve) -> Steps[tuple[Any, bool]]:
    """The brokers are told all the same, or the client would not know whom to ask again."""
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
    kept = only("Metadata", request, lambda target: not fault.is_about(target), call.core)
    response = yield from result_of(serve(kept))
    refused = only("Metadata", request, fault.is_about, call.core) if request.topics else request
    errors = error_answer("Metadata", refused, call.api_version, code).topics
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
    fault: Fault, code: ErrorCode, request: Any, targets: tuple[Target, ...], call: Call, serve: Serve
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
    errors = replace(response, responses=[])
    for each in hit:
        name, index = cast("str", each.topic), cast("int", each.partition)
        topic_id = _topic_id(name, call)
        entry = None if session is None else session.partitions.get((topic_id or name, index))
        if entry is not None:
            entry.forget()
        data = fetch_error(index, code)
        known = next((topic for topic in errors.responses if topic.topic == name), None)
        if known is None:
            errors.responses.append(_fetched_topic(name, topic_id or ZERO_UUID, data))
        else:
            known.partitions.append(data)
    return merged(response, errors), bool(hit)


def _topic_id(name: str, call: Call) -> bytes | None:
    """The id of a topic, if that is what this fetch goes by."""
    topic = call.core.topics.get(name) if call.api_version >= _FIRST_FETCH_WITH_IDS else None
    return None if topic is None else topic.id


def _fetched_topic(name: str, topic_id: bytes, data: Any) -> Any:
    from minibroker_protocol.messages.fetch import FetchableTopicResponse  # noqa: PLC0415 - only once a fault hits one

    return FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[data])
