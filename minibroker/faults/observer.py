"""The interceptor that looks into requests on their way: it keeps the journal, and has the faults.

`Services.observer` is None while neither is asked for. Dispatch decodes each request for it (no memo). It
writes the request down, and lets the faults do with it what they are for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from minibroker.cluster.hooks import FaultHit
from minibroker.faults.delayed_by_fault import DelayedByFault
from minibroker.faults.fault import Fault, RequestContext
from minibroker.faults.observed import installed_faults
from minibroker.faults.refusals import refuse
from minibroker.faults.registry import FaultRegistry, MatchedFault
from minibroker.faults.stale_metadata import MetadataHistory
from minibroker.inspection.journal import DEFAULT_CAPACITY, LENGTH_SIZE, Entry, Journal, Origin
from minibroker.inspection.kept import early_targets, plain_request_of, request_of
from minibroker.requests.dispatch import outcome_of, serve
from minibroker.requests.targets import targets_of
from minibroker.routing.outcomes import Answer, DelayedResponse, Outcome, Waiting
from minibroker.routing.slices import Steps, result_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.frame import read_request_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.requests.call import Call
    from minibroker.requests.declarations import Target
    from minibroker.requests.session import Session
    from minibroker.routing.outcomes import Channel
    from minibroker.services import Services


def keep_journal(services: Services, capacity: int = DEFAULT_CAPACITY) -> Journal:
    """Keep a journal from now on; an old one goes. ValueError for a capacity below 1."""
    journal = Journal(capacity)
    observer = _observer_of(services)
    observer.journal = journal
    observer.settle()
    return journal


def watch_requests(services: Services, watcher: Callable[[Entry], None] | None) -> None:
    """Have `watcher` called with each request that is over; None for no call."""
    observer = _observer_of(services)
    observer.watcher = watcher
    observer.settle()


def drop_journal(services: Services) -> None:
    """Keep no journal any more."""
    if services.observer is not None:
        services.observer.journal = None
        services.observer.settle()


def faults_of(services: Services) -> FaultRegistry:
    """Where faults are added and removed; the same one for as long as any is installed."""
    return installed_faults(services) or FaultRegistry(partial(_faults_changed, services))


def _faults_changed(services: Services, registry: FaultRegistry) -> None:
    observer = _observer_of(services)
    observer.faults = registry if len(registry) else None
    depth = max((fault.stale_metadata or 0 for fault in registry), default=0)
    if depth and (observer.history is None or observer.history.depth < depth):
        observer.history = MetadataHistory(services, depth)
    elif not depth:
        observer.history = None
    observer.settle()


def _observer_of(services: Services) -> RequestObserver:
    observer: RequestObserver | None = services.observer
    return observer or RequestObserver(services)


class _Request:
    """One request on its way past the observer.

    Attributes:
        version: as the client has asked.
        targets: None where the request names them all itself, and no fault asks for them.
    """

    __slots__ = ("api", "call", "correlation_id", "endpoint", "entry", "request", "targets", "version")

    def __init__(self, decoded: tuple[Any, Call, int], frame: memoryview, *, has_faults: bool) -> None:
        request, call, correlation_id = decoded
        self.version = int.from_bytes(frame[2:4], "big", signed=True)
        self.endpoint = call.endpoint
        self.correlation_id = correlation_id
        self.request = request
        self.call = call
        self.api = call.endpoint.api
        find_targets = partial(targets_of, self.endpoint.names) if has_faults else partial(early_targets, self.endpoint)
        self.targets: tuple[Target, ...] | None = find_targets(request, call)
        self.entry: Entry | None = None

    def serve(self, request: Any) -> Any:
        """Have the request, or what a fault leaves of it, handled."""
        return serve(request, self.call)

    def outcome_of(self, response: Any) -> Outcome:
        """The outcome for the connection, made of the return value of a handler."""
        return outcome_of(response, self.call, self.correlation_id, self.entry)

    def waits_for_answer(self) -> bool:
        """False for acks=0."""
        return self.endpoint.route.key is not ApiKey.PRODUCE or bool(self.request.acks)


class RequestObserver:
    """The journal and the faults of one broker.

    Attributes:
        journal: None while none is kept.
        faults: None while there are none.
        watcher: called with each request that is over.
        history: of the metadata, while a fault answers with what it was.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self.journal: Journal | None = None
        self.faults: FaultRegistry | None = None
        self.watcher: Callable[[Entry], None] | None = None
        self.history: MetadataHistory | None = None

    def settle(self) -> None:
        """Stand before the handlers if there is anything to do."""
        idle = self.journal is None and self.faults is None and self.watcher is None
        self._services.observe(None if idle else self)

    def serve(self, channel: Channel, decoded: tuple[Any, Call, int], frame: memoryview) -> Steps[Outcome]:
        """Serve a request, decoded to (message, call, correlation id), and write it down if there is a journal."""
        request = _Request(decoded, frame, has_faults=self.faults is not None)
        if self.history is not None:
            self.history.note()
        matched = None if self.faults is None else self._match(self.faults, request)
        if self.journal is not None or self.watcher is not None or matched is not None:
            request.entry = self.begin(channel, decoded, frame)
            request.entry.drop_records(copy=True)
        try:
            if matched is None:
                outcome = request.outcome_of((yield from result_of(request.serve(request.request))))
            else:
                outcome = yield from self._act_on(matched, request, channel)
        except Exception as error:
            if request.entry is not None:
                request.entry.fail(error)
            raise
        if outcome is None and request.entry is not None:
            request.entry.end()
        return outcome

    # The journal

    def begin(self, channel: Channel, decoded: tuple[Any, Call, int], frame: memoryview) -> Entry:
        """Write down a request, and return its entry in the journal."""
        request, call, correlation_id = decoded
        version = int.from_bytes(frame[2:4], "big", signed=True)
        entry = self._entry(channel, call.session, len(frame))
        kept = request_of(call.endpoint, frame, request)
        entry.keep(call, version, correlation_id, kept, early_targets(call.endpoint, request, call))
        return entry

    def begin_plain(
        self, channel: Channel, call: Call, correlation_id: int, size: int, values: tuple[Any, ...]
    ) -> Entry:
        """Write down a request that was served in the plain shape, and return its entry in the journal."""
        entry = self._entry(channel, call.session, size)
        kept, targets = plain_request_of(call, values)
        entry.keep(call, call.api_version, correlation_id, kept, targets)
        return entry

    def _entry(self, channel: Channel, session: Session, size: int) -> Entry:
        clock = self._services.core.clock
        origin: Origin = session.origin or self._meet(channel, session)
        entry = Entry(0, (clock.now_ms(), clock.monotonic_ms()), origin, size + LENGTH_SIZE)
        entry.watcher = self.watcher
        if self.journal is not None:
            self.journal.add(entry)
        return entry

    def _meet(self, channel: Channel, session: Session) -> Origin:
        connection = "-".join(map(_address, channel.ends))
        count = 0 if self.journal is None else self.journal.count
        origin = Origin(connection, session.node.id, session.client_host, self._services.core, count)
        session.origin = origin
        return origin

    def note_refused(self, channel: Channel, frame: memoryview, session: Session, error: Exception) -> None:
        """Write down a frame that cannot be decoded."""
        if self.journal is None and self.watcher is None:
            return
        entry = self._entry(channel, session, len(frame))
        entry.failure = str(error)
        try:
            header = read_request_header(frame)
            entry.version, entry.correlation_id = header.api_version, header.correlation_id
            entry.client_id = header.client_id
            entry.api = _api_name(header.api_key)
        except DecodeError:
            pass
        entry.end()

    # The faults

    def _match(self, faults: FaultRegistry, request: _Request) -> MatchedFault | None:
        call, targets = request.call, request.targets or ()
        return faults.match(RequestContext(request.api, request.version, call.client_id, call.session.node.id, targets))

    def _act_on(self, matched: MatchedFault, request: _Request, channel: Channel) -> Steps[Outcome]:
        entry = request.entry
        assert entry is not None
        entry.fault = matched.fault or matched.all[0]
        for each in matched.all:
            each.fire(entry)
        client_id, correlation_id = request.call.client_id, request.correlation_id
        client, fields = _address(channel.ends[1]), entry.fault.to_json
        self._services.core.hooks.fault_hit(FaultHit(request.api, client_id, client, correlation_id, fields))
        fault = matched.fault
        action = None if fault is None else fault.action
        lost = fault is not None and (action == "black_hole" or "before" in {fault.drop, fault.disconnect})
        response = None if lost else (yield from self._respond(matched.fault, request, entry))
        if action in {None, "error", "stale_metadata"} and not matched.delay_ms and not matched.throttle_ms:
            return request.outcome_of(response)
        has_answer = request.waits_for_answer()
        if fault is not None and action in {"truncate", "corrupt"} and not has_answer:
            fault.take_back(entry)
        inner = response if isinstance(response, DelayedResponse) else None
        answer = Answer(None, request.call, request.correlation_id, entry)
        held = DelayedByFault(channel, self._services.core.clock, matched, answer, inner, has_answer=has_answer)
        if inner is None:
            self._services.core.call_soon(partial(held.go_on, response))  # once what it appends is written
        return Waiting(held, answer)

    def _respond(self, fault: Fault | None, request: _Request, entry: Entry) -> Steps[Any]:
        """The response of the handler, or that of a fault in its place."""
        if fault is None or fault.action not in {"error", "stale_metadata"}:
            return (yield from result_of(request.serve(request.request)))
        if fault.action == "stale_metadata":
            assert self.history is not None
            return self.history.response(request.request, fault.stale_metadata or 1, request.call)
        refused = refuse(fault, request.endpoint, request.request, request.targets or (), request.call, request.serve)
        response, has_error = yield from refused
        if not has_error:
            fault.take_back(entry)
        return response


def _address(end: Any) -> str:
    """HOST:PORT of a socket's name; "?" if it is unknown."""
    if not end:
        return "?"
    host, port = end[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).message
    except ValueError:
        return str(key)
