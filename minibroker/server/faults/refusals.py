"""Error responses of injected faults, for a whole request or for the parts that a fault applies to.

`server/requests/refusals.py` builds them. The parts that a fault applies to are not served, and their errors
are merged into the response to the other parts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from minibroker.cluster.routing.outcomes import ChangedResponse, DelayedResponse
from minibroker.cluster.routing.slices import then
from minibroker.server.inspection.journal import error_codes_of
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.refusals import check_acks, error_answer, merge_response, partial_error_answer
from minibroker.server.requests.targets import select_targets
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import first_version

with lazy:
    from minibroker_protocol.messages import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.server.faults.fault import Fault
    from minibroker.server.requests.call import Call
    from minibroker_protocol.error_codes import ErrorCode

    Handle = Callable[[Any, Call], Any]


def refuse(fault: Fault, request: Any, targets: tuple[Target, ...], call: Call, handle: Handle) -> Any:
    """Refuse a request that a fault with `error` hits, or the parts of it that the fault applies to.

    `handle` handles the remaining parts, and the refused ones, too, if the fault is `applied`.

    Returns:
        The result to use instead of the handler's and whether it contains an error, or work that produces both.

    Raises:
        UnservedRequestError: A Produce request has acks=0. As in Kafka, an error closes its connection.
    """
    endpoint = call.endpoint
    key = endpoint.route.key
    if key is ApiKey.METADATA:
        return _refuse_metadata(fault, request, call, handle)
    if key is ApiKey.FETCH and fault.is_partial:
        served = handle(replace(request, max_wait_ms=0), call)  # Like Kafka, answer immediately if there is an error.
        return then(served, partial(_refuse_partitions, fault, request, targets, call))
    is_whole = all(map(fault.applies_to, targets))
    refused = request if is_whole else select_targets(endpoint.names, request, fault.applies_to, call.core)

    def answer_refused(applied: Any) -> tuple[Any, bool]:
        if isinstance(applied, DelayedResponse):
            return ChangedResponse(applied, lambda response: answer_refused(response)[0]), True
        if any(error_codes_of(applied)):  # The request was refused anyway, so it was not applied.
            return applied, False
        check_acks(endpoint, refused, f"a fault answers {cast('ErrorCode', fault.error).name}")
        make = partial_error_answer if fault.is_partial else error_answer
        return make(endpoint, refused, call.api_version, cast("ErrorCode", fault.error)), True

    applied = handle(refused, call) if fault.applied else None
    if is_whole:
        return then(applied, answer_refused)
    remaining = select_targets(endpoint.names, request, lambda target: not fault.applies_to(target), call.core)

    def add_errors(applied: Any, served: Any) -> tuple[Any, bool]:
        if isinstance(served, DelayedResponse):
            return ChangedResponse(served, lambda response: add_errors(applied, response)[0]), True
        # The error of a delayed request is sent early, as after a timeout in the broker.
        errors, has_error = answer_refused(None if isinstance(applied, DelayedResponse) else applied)
        return merge_response(served, errors), has_error

    return then(applied, lambda applied: then(handle(remaining, call), partial(add_errors, applied)))


def _refuse_metadata(fault: Fault, request: Any, call: Call, handle: Handle) -> Any:
    """Refuse topics or a partition. The response still lists the brokers, which the client needs to retry."""
    code, names = cast("ErrorCode", fault.error), call.endpoint.names

    def add_errors(response: Any) -> tuple[Any, bool]:
        refused = select_targets(names, request, fault.applies_to, call.core) if request.topics else request
        errors = error_answer(call.endpoint, refused, call.api_version, code).topics
        refused_names = {refused_topic.name for refused_topic in errors}
        served: list[Any] = []
        for topic in response.topics:
            if not fault.applies_to(Target(topic.name)):
                served.append(topic)
            # A request for all topics names none, so refused topics are found in the response.
            elif topic.name not in refused_names and not request.topics:
                errors.append(replace(topic, error_code=code, partitions=[]))
        response.topics = [*served, *errors]
        return response, bool(errors)

    if fault.partition is not None:
        return then(handle(request, call), partial(_remove_leader, fault, fault.partition))
    remaining = select_targets(names, request, lambda target: not fault.applies_to(target), call.core)
    return then(handle(remaining, call), add_errors)


def _remove_leader(fault: Fault, index: int, response: Any) -> tuple[Any, bool]:
    """Set the fault's error in each topic's partition with this index, and remove its leader."""
    has_partition = False
    for topic in response.topics:
        if fault.applies_to(Target(topic.name)):
            has_partition |= any(partition.partition_index == index for partition in topic.partitions)
            topic.partitions = [
                replace(partition, error_code=fault.error, leader_id=-1)
                if partition.partition_index == index
                else partition
                for partition in topic.partitions
            ]
    return response, has_partition


def _refuse_partitions(
    fault: Fault, request: Any, targets: tuple[Target, ...], call: Call, response: Any
) -> tuple[Any, bool]:
    if response.error_code:
        return response, False
    hits = [target for target in targets if fault.applies_to(target) and None not in {target.topic, target.partition}]
    names = {(hit.topic, hit.partition) for hit in hits}
    for topic in response.responses:
        topic.partitions = [
            partition for partition in topic.partitions if (topic.topic, partition.partition_index) not in names
        ]
    response.responses = [topic for topic in response.responses if topic.partitions]
    session = call.node.fetch_sessions.get(response.session_id)
    partitions_by_topic: dict[tuple[str, bytes | None], list[int]] = {}
    for hit in hits:
        name, index = cast("str", hit.topic), cast("int", hit.partition)
        topic_id = _topic_id(name, call)
        if session is not None:
            session.forget((topic_id or name, index))
        partitions_by_topic.setdefault((name, topic_id), []).append(index)
    errors = partial_error_answer(
        call.endpoint, _fetch_of(request, partitions_by_topic), call.api_version, cast("ErrorCode", fault.error)
    )
    return merge_response(response, errors), bool(hits)


def _topic_id(name: str, call: Call) -> bytes | None:
    """Return the id of a topic if this fetch identifies topics by id, otherwise None."""
    goes_by_ids = call.api_version >= first_version(fetch.FetchTopic, "topic_id")
    topic = call.core.topics.get(name) if goes_by_ids else None
    return None if topic is None else topic.id


def _fetch_of(request: Any, partitions_by_topic: dict[tuple[str, bytes | None], list[int]]) -> Any:
    """Return the request reduced to these partitions."""
    topics = [
        fetch.FetchTopic(
            topic=name,
            topic_id=topic_id or ZERO_UUID,
            partitions=[
                fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=0) for index in indexes
            ],
        )
        for (name, topic_id), indexes in partitions_by_topic.items()
    ]
    return replace(request, topics=topics)
