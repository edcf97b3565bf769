"""The faults installed in a broker, and their effect on the requests that they hit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.cluster.hooks import FaultHit
from minibroker.cluster.routing.outcomes import Answer, ChangedResponse, DelayedResponse, Outcome, Waiting
from minibroker.cluster.routing.slices import then
from minibroker.server.faults.effects import DelayedByFault, remove_records
from minibroker.server.faults.fault import RequestContext
from minibroker.server.faults.installed import InstalledFaults, combine
from minibroker.server.faults.late_requests import LateRequests
from minibroker.server.faults.refusals import refuse
from minibroker.server.faults.stale_metadata import MetadataHistory
from minibroker.server.inspection.recording import recording_of
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.dispatch import handle, outcome_of
from minibroker.server.requests.targets import targets_of
from minibroker_protocol.api_keys import ApiKey

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
        if action in _IMMEDIATE and not matched.delay_ms and not matched.throttle_ms:
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
