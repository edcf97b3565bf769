"""The faults installed in a broker, and their effect on the requests that they hit."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.cluster.hooks import FaultHit
from minibroker.cluster.routing.outcomes import Answer, ChangedResponse, DelayedResponse, Outcome, Waiting
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.cluster.routing.slices import then
from minibroker.server.faults.effects import DelayedByFault, HeldRequest, ignore_response, remove_records
from minibroker.server.faults.fault import RequestContext
from minibroker.server.faults.installed import InstalledFaults, combine
from minibroker.server.faults.stale_metadata import MetadataHistory
from minibroker.server.inspection.journal import error_codes_of
from minibroker.server.inspection.recording import recording_of
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.dispatch import handle, outcome_of
from minibroker.server.requests.refusals import check_acks, error_answer, merge_response, partial_error_answer
from minibroker.server.requests.targets import select_targets, targets_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import first_version

with lazy:
    from minibroker_protocol.messages import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.server.inspection.recording import RecordedRequest
    from minibroker.server.requests.call import Call
    from minibroker.server.services import Services


@dataclasses.dataclass(slots=True, eq=False)
class _LateRequest:
    remaining: int
    request: Any
    targets: frozenset[Target]
    call: Call
    entry: RecordedRequest
    node_starts: int
    held: HeldRequest | None = None


class LateRequests:
    """The requests of one broker that are applied later than they arrive.

    Args:
        services: The services of the broker.
        handle: Handles a request, given its call and its entry, and returns its result.
    """

    def __init__(self, services: Services, handle: Callable[[Any, Call, RecordedRequest], Any]) -> None:
        self._services = services
        self._handle = handle
        self._waiting: list[_LateRequest] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, count: int, request: Any, targets: tuple[Target, ...], call: Call, entry: RecordedRequest) -> None:
        """Keep a request until `count` other requests with one of its targets were served.

        A request without targets waits for any requests.
        """
        distinct = frozenset(targets) - {Target()}
        copied = _copy_buffers(request)
        self._waiting.append(_LateRequest(count, copied, distinct, call, entry, call.node.starts))

    def hold(self, delay_ms: float, request: Any, call: Call, entry: RecordedRequest) -> HeldRequest:
        """Keep a request until `release`, or for a time, and respond to it then."""
        held = HeldRequest()
        late = _LateRequest(0, _copy_buffers(request), frozenset(), call, entry, call.node.starts, held)
        self._waiting.append(late)
        self._services.core.clock.call_later(delay_ms, partial(self._apply, late))
        return held

    def release(self, fault: Fault) -> None:
        """Apply the requests that a fault has held back."""
        for late in tuple(self._waiting):
            if late.entry.fault is fault:
                self._apply(late)

    def count(self, targets: tuple[Target, ...]) -> None:
        """Count a request. It is served before the late requests that have waited for it."""
        for late in tuple(self._waiting):
            if late.held is None and (not late.targets or not late.targets.isdisjoint(targets)):
                late.remaining -= 1
                if not late.remaining:
                    self._services.core.call_soon(partial(self._apply, late))

    def apply_all(self) -> None:
        """Apply all late requests now, in their order of arrival."""
        for late in tuple(self._waiting):
            self._apply(late)

    def clear(self) -> None:
        """Drop all late requests."""
        self._waiting.clear()

    def _apply(self, late: _LateRequest) -> None:
        if late not in self._waiting:
            return
        self._waiting.remove(late)
        node = late.call.node
        if not node.is_up or node.starts != late.node_starts:  # A stopped broker loses its queue.
            return
        with suppress(UnservedRequestError):
            result = self._handle(late.request, late.call, late.entry)
            self._services.core.slices.run(result, partial(self._respond, late.held), _raise)
        self._services.core.writes.commit_and_wake()

    def _respond(self, held: HeldRequest | None, response: Any) -> None:
        if held is None:
            ignore_response(response)
        else:
            # The appends of the request must be written first.
            self._services.core.call_soon(partial(held.respond, response))


def _raise(error: Exception) -> None:
    if not isinstance(error, UnservedRequestError):
        raise error


def _copy_buffers(value: Any) -> Any:
    """Return a copy of a request or a part of it that shares no memory with the connection's buffer."""
    kind: type[Any] = value.__class__
    if kind is memoryview:
        return memoryview(bytearray(value))
    if kind is list:
        return list(map(_copy_buffers, value))
    if not dataclasses.is_dataclass(kind):
        return value
    return kind(**{field.name: _copy_buffers(getattr(value, field.name)) for field in dataclasses.fields(kind)})


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


if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.cluster.routing.outcomes import Channel
    from minibroker.server.faults.fault import Fault
    from minibroker.server.faults.installed import MatchedFault
    from minibroker.server.inspection.recording import RecordedRequest
    from minibroker.server.requests.call import Call
    from minibroker.server.services import Services

    Advisor = Callable[[RequestContext, Any, Call, RecordedRequest], Fault | None]
    Observer = Callable[[RecordedRequest, Any, Any, Call], None]

_IMMEDIATE: Final = frozenset({None, "error", "stale_metadata", "fetch_bytes"})
"""Actions whose response is sent like any other, unless it is delayed."""


class FaultRegistry(InstalledFaults):
    """The installed faults, in the order of their installation.

    While there are faults, an advisor or observers, all requests go through `serve`.

    Attributes:
        history: The history of the metadata, or None if no fault returns stale metadata.
        late: The requests that are applied after their connections were closed.
    """

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._advisor: Advisor | None = None
        self._observers: tuple[Observer, ...] = ()
        self.history: MetadataHistory | None = None
        self.late = LateRequests(services, self._handle)

    def __bool__(self) -> bool:
        """Return whether requests must go through `serve`."""
        return bool(self._faults or self._advisor is not None or self._observers)

    @property
    def advisor(self) -> Advisor | None:
        """A function asked about each request that no installed fault hits, or None.

        It gets the context, the request, its call and its entry. The fault that it returns applies as if it were
        installed and due.
        """
        return self._advisor

    @advisor.setter
    def advisor(self, advisor: Advisor | None) -> None:
        self._advisor = advisor
        self._install(self._faults)

    def add_observer(self, observer: Observer) -> None:
        """Call `observer(entry, request, response, call)` for each request once it has been applied.

        The response is that of the handler, before a fault changes or loses it, or None for Produce with acks=0. A
        delayed response is observed when it is delivered. `entry.number` numbers the requests in order of arrival.
        """
        self._observers = (*self._observers, observer)
        self._install(self._faults)

    def remove_observer(self, observer: Observer) -> None:
        """Stop calling an observer."""
        self._observers = tuple(other for other in self._observers if other != observer)
        self._install(self._faults)

    @property
    def needs_history(self) -> bool:
        """Whether an installed fault returns stale metadata."""
        return any(fault.stale_metadata for fault in self._faults)

    def settle(self) -> None:
        """Apply all late requests now."""
        self.late.apply_all()

    def _install(self, faults: tuple[Fault, ...]) -> None:
        super()._install(faults)
        depth = max((fault.stale_metadata or 0 for fault in faults), default=0)
        if depth:
            self._remember_metadata(depth)
        elif self._advisor is None:
            self.history = None
        recording_of(self._services).record_faults(has_faults=bool(self))

    def _remember_metadata(self, depth: int) -> MetadataHistory:
        if self.history is None or self.history.depth < depth:
            self.history = MetadataHistory(self._services, depth)
        return self.history

    def match_http(self, request: str) -> MatchedFault | None:
        """Count a request to the schema registry, such as `GET /subjects`, and return the effect on it, or None."""
        matched = self.match(RequestContext(request, 0, None, -1, (Target(),)))
        if matched is not None:
            for fault in matched.all:
                fault.fired += 1
            self._services.core.hooks.fault_hit(FaultHit(request, None, matched.all[0].to_json))
        return matched

    def serve(self, channel: Channel, request: Any, call: Call, entry: RecordedRequest) -> Any:
        """Serve a request unless a fault prevents it, and apply the faults to its response.

        Return the outcome, or work that produces the outcome.
        """
        if self.history is not None:
            self.history.update()
        endpoint = call.endpoint
        targets = targets_of(endpoint.names, request, call)
        node = call.session.node.id
        context = RequestContext(endpoint.api, entry.version, call.client_id, node, targets)
        matched = self.match(context)
        if matched is None and self._advisor is not None:
            advised = self._advisor(context, request, call, entry)
            matched = None if advised is None else combine([advised])
        self.late.count(targets)
        if matched is None:
            work = self._handle(request, call, entry)
            return then(work, lambda response: outcome_of(response, call, entry.correlation_id, entry))
        fault = matched.fault
        shown_fault = entry.fault = fault or matched.all[0]
        for hitting in matched.all:
            hitting.record_hit(entry)
        if entry.chaos is None:
            self._services.core.hooks.fault_hit(FaultHit(endpoint.api, call.client_id, shown_fault.to_json))
        if shown_fault.delays_request:
            held = self.late.hold(matched.delay_ms, request, call, entry)
            return Waiting(held, Answer(None, call, entry.correlation_id, entry))
        action = None if fault is None else fault.action
        is_lost = fault is not None and (action in {"black_hole", "late"} or "before" in {fault.drop, fault.disconnect})
        if fault is not None and fault.late is not None:
            self.late.add(fault.late, request, targets, call, entry)
        entry.expects_response = endpoint.route.key is not ApiKey.PRODUCE or bool(request.acks)
        if is_lost:
            return self._apply(None, matched, channel, call, entry)
        work = self._respond(fault, request, targets, call, entry)
        return then(work, lambda response: self._apply(response, matched, channel, call, entry))

    def _apply(
        self, response: Any, matched: MatchedFault, channel: Channel, call: Call, entry: RecordedRequest
    ) -> Outcome:
        """Return the outcome of a request that is hit. `response` is the response without the effect of `matched`."""
        fault, correlation_id = matched.fault, entry.correlation_id
        action = None if fault is None else fault.action
        if action in _IMMEDIATE and not (matched.delay_ms or matched.throttle_ms or matched.is_paced):
            return outcome_of(response, call, correlation_id, entry)
        if fault is not None and action in {"truncate", "corrupt"} and not entry.expects_response:
            fault.remove_hit(entry)
        inner = response if isinstance(response, DelayedResponse) else None
        answer = Answer(None, call, correlation_id, entry)
        delayed = DelayedByFault(channel, matched, answer, inner)
        if inner is None:
            # The appends of the request must be written first.
            self._services.core.call_soon(partial(delayed.proceed, response))
        return Waiting(delayed, answer)

    def _respond(
        self, fault: Fault | None, request: Any, targets: tuple[Target, ...], call: Call, entry: RecordedRequest
    ) -> Any:
        """Return the response of the handler or of the fault that replaces it, or work that produces the response."""
        if fault is not None and fault.fetch_bytes is not None:
            return self._fetch_less(fault.fetch_bytes, request, call, entry)
        if fault is None or fault.action not in {"error", "stale_metadata"}:
            return self._handle(request, call, entry)
        if fault.stale_metadata is not None:
            return self._remember_metadata(fault.stale_metadata).response(request, fault.stale_metadata, call)

        def withdraw_unused_hit(refused: tuple[Any, bool]) -> Any:
            response, has_error = refused
            if not has_error:
                fault.remove_hit(entry)
            return response

        def handle_and_observe(part: Any, call: Call) -> Any:
            return self._handle(part, call, entry)

        return then(refuse(fault, request, targets, call, handle_and_observe), withdraw_unused_hit)

    def _handle(self, request: Any, call: Call, entry: RecordedRequest) -> Any:
        """Handle a request like `dispatch.handle`, and pass its response to the observers."""
        result = handle(request, call)
        return then(result, partial(self._observe, entry, request, call)) if self._observers else result

    def _observe(self, entry: RecordedRequest, request: Any, call: Call, response: Any) -> Any:
        if isinstance(response, DelayedResponse):
            return ChangedResponse(response, partial(self._observe, entry, request, call))
        self._services.core.writes.commit()  # A failed write turns the response to a Produce request into an error.
        for observer in self._observers:
            observer(entry, request, response, call)
        return response

    def _fetch_less(self, max_bytes: int, request: Any, call: Call, entry: RecordedRequest) -> Any:
        """Serve a fetch with a lower limit. As in Kafka, a limit below the first batch still returns that batch.

        With a limit of 0 the response has no records, as after a wait that ended without new ones.
        """
        if max_bytes:
            return self._handle(replace(request, max_bytes=min(max_bytes, request.max_bytes)), call, entry)
        answered = self._handle(replace(request, max_bytes=0, max_wait_ms=0), call, entry)
        return then(answered, remove_records)


def faults_of(services: Services) -> FaultRegistry:
    """Return the fault registry of a broker, creating it in `Services.faults` if necessary."""
    if services.faults is None:
        services.faults = FaultRegistry(services)
    return cast("FaultRegistry", services.faults)
