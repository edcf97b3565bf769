"""Faults of the proxy: what a network or a broker may do to requests and responses on their way.

A proxy with faults passes whole frames, in order. It changes no byte but those that a fault names.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.server.faults.effects import corrupt_frame
from minibroker.server.faults.fault import FaultError, RequestContext
from minibroker.server.faults.installed import InstalledFaults, MatchedFault, combine
from minibroker.server.requests.declarations import Target
from minibroker.server.requests.endpoints import Endpoint, endpoint
from minibroker.server.requests.refusals import error_answer
from minibroker.server.requests.targets import targets_by_name
from minibroker_lab.reading import KnownTopics
from minibroker_lab.trace.conversation import PREFIX
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages import MODULES
from minibroker_protocol.primitives import skip_tagged_fields
from minibroker_protocol.schema import fields_of

with lazy:
    from minibroker_lab.trace import chaos as trace_chaos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from minibroker.server.faults.fault import Fault
    from minibroker_lab.trace.proxy import ClientSide
    from minibroker_protocol.error_codes import ErrorCode

_BODY: Final = 8
_INT32: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ii")
_MAX_VIEWS: Final = 1000
"""The number of different Metadata requests whose earlier responses are kept."""
MAX_LATE_S: Final = 30.0
"""How long a late request waits for others."""


class _Request(NamedTuple):
    """A decoded request."""

    endpoint: Endpoint
    version: int
    correlation_id: int
    message: Any
    targets: tuple[Target, ...]

    @property
    def body(self) -> int:
        """The position of the body in the response."""
        return _BODY + self.endpoint.has_flexible_response_header(self.version)


@dataclass(eq=False)
class _Slot:
    """The place of a response among those of its connection.

    Attributes:
        request: The request, or None if it is not decoded.
        effect: The effect of the faults that hit the request, or None.
        late: The late requests that wait for the response.
        response: The response, or None until it has arrived.
        is_delayed: Whether the delay is over, or has begun.
    """

    request: _Request | None
    effect: MatchedFault | None
    late: Iterable[_Late]
    response: bytes | bytearray | None = None
    is_delayed: bool = False


@dataclass(eq=False)
class _Late:
    """A request that is forwarded once as many others with one of its targets are answered."""

    remaining: int
    targets: frozenset[Target]
    forward: Callable[[], object]


class ProxyFaults:
    """The faults of a proxy, with the requests that they hold back.

    Args:
        faults: The faults.
        chaos: The seed and the profile of misbehaviours at the requests that no fault hits, or None.

    Attributes:
        chaos: These misbehaviours, or None.
        requests: The number of requests so far.

    Raises:
        ChaosError: There is no such profile.
        FaultError: A fault has a field that only a broker can act on.
    """

    def __init__(self, faults: Iterable[Fault] = (), chaos: tuple[int, str] | None = None) -> None:
        self.installed = InstalledFaults()
        self.chaos = None if chaos is None else trace_chaos.ProxyChaos(*chaos, _is_possible)
        self.requests = 0
        self.topics = KnownTopics()
        self._late: list[_Late] = []
        for fault in faults:
            name = _field_of_broker(fault)
            if name is not None:
                raise FaultError(f"{name}: a proxy cannot do this, since it knows neither brokers nor records")
            self.installed.add(fault)
        depth = max((fault.stale_metadata or 0 for fault in self.installed), default=0)
        self._views: dict[tuple[int, str], deque[bytes]] = {}
        self._depth = depth + 1

    def read(self, frame: bytes) -> _Request | None:
        """Decode a request, or return None if its API or version is unknown, or if it is a SASL token."""
        view = memoryview(frame)[PREFIX:]
        try:
            header = read_request_header(view)
            if header.api_key not in MODULES:
                return None
            known = endpoint(header.api_key)
            version, position = header.api_version, header.body
            if version in known.flexible:
                position = skip_tagged_fields(view, position)
            message, _ = decode(known.request, view, version, position)
            targets = targets_by_name(known.names, message, cast("Any", self.topics))
        except (DecodeError, ValueError):
            return None
        return _Request(known, version, header.correlation_id, message, targets)

    def match(self, frame: bytes, request: _Request, opened_after: int) -> MatchedFault | None:
        """Return the effect of the faults that hit a request, or None."""
        self.requests += 1
        client_id = read_request_header(memoryview(frame)[PREFIX:]).client_id
        context = RequestContext(request.endpoint.api, request.version, client_id, -1, request.targets)
        matched = self.installed.match(context)
        if matched is not None and matched.fault is not None and not _is_possible(matched.fault, context):
            return None
        if matched is None and self.chaos is not None:
            advised = self.chaos.advise(context, request.message, opened_after, self.requests)
            matched = None if advised is None else combine([advised])
        if matched is not None:
            for hitting in matched.all:
                hitting.fired += 1
        return matched

    def learn(self, request: _Request, frame: bytes, forwarded: bytes | bytearray) -> None:
        """Learn the ids of topics and the number of brokers from Metadata, and keep the response for later."""
        with suppress(DecodeError):  # A response that cannot be read is forwarded all the same.
            response, _ = decode(request.endpoint.response, memoryview(frame), request.version, request.body)
            self.topics.learn(response)
            if self.chaos is not None:
                self.chaos.brokers = len(response.brokers)
        views = self._views.setdefault((request.version, repr(request.message)), deque(maxlen=self._depth))
        view = bytes(forwarded[_BODY:])
        if not views or views[-1] != view:
            views.append(view)
        if len(self._views) > _MAX_VIEWS:
            del self._views[next(iter(self._views))]

    def age(self, request: _Request, changes: int) -> bytearray:
        """Return the response to Metadata as it was this many changes ago, or the oldest one that is kept."""
        views = self._views[request.version, repr(request.message)]
        view = views[max(0, len(views) - 1 - changes)]
        return bytearray(_HEAD.pack(len(view) + _BODY - PREFIX, request.correlation_id) + view)

    def add_late(self, count: int, request: _Request, forward: Callable[[], object]) -> None:
        """Forward a request once `count` others with one of its targets are answered, or any others if it has none.

        Only the answers show that a broker has served the others, which come on other connections. The request is
        forwarded after `MAX_LATE_S` seconds at the latest.
        """
        late = _Late(count, frozenset(request.targets) - {Target()}, forward)
        self._late.append(late)
        asyncio.get_running_loop().call_later(MAX_LATE_S, self._forward, late)

    def find_late(self, targets: tuple[Target, ...]) -> list[_Late]:
        """Return the late requests that wait for a request with these targets."""
        return [late for late in self._late if not late.targets or not late.targets.isdisjoint(targets)]

    def count(self, waiting: Iterable[_Late]) -> None:
        """Count a request for which these late ones have waited."""
        for late in waiting:
            late.remaining -= 1
            if not late.remaining:
                self._forward(late)

    def _forward(self, late: _Late) -> None:
        if late in self._late:
            self._late.remove(late)
            late.forward()


class FaultyConnection:
    """The frames of one connection under faults."""

    def __init__(self, faults: ProxyFaults, client: ClientSide) -> None:
        self._faults = faults
        self._client = client
        self._opened_after = faults.requests
        self._requests, self._responses = bytearray(), bytearray()
        self._slots: deque[_Slot] = deque()
        self._waits = False
        self._is_black_hole = False

    def feed_requests(self, data: bytes) -> None:
        """Take bytes of the client, and forward the requests that end in them."""
        for frame in _split(self._requests, data):
            if not self._is_black_hole:
                self._take(frame)

    def feed_responses(self, data: bytes) -> None:
        """Take bytes of the broker, and forward the responses that end in them."""
        for frame in _split(self._responses, data):
            forwarded = self._client.conversation.response(frame, len(frame))
            slot = self._find_slot(frame)
            if slot is None:
                self._client.write(forwarded)
            else:
                slot.response = forwarded
                if slot.request is not None and slot.request.endpoint.route.key is ApiKey.METADATA:
                    self._faults.learn(slot.request, frame, forwarded)
                self._faults.count(slot.late)
        self._flush()

    def _take(self, frame: bytes) -> None:
        if self._client.is_closing:  # What follows a request that closes the connection is lost with it.
            self._client.conversation.request(frame, len(frame))
            return
        request = self._faults.read(frame)
        late = () if request is None else self._faults.find_late(request.targets)
        effect = None if request is None else self._faults.match(frame, request, self._opened_after)
        self._client.conversation.request(frame, len(frame))
        fault = None if effect is None else effect.fault
        action = None if fault is None else fault.action
        if fault is None or request is None or not self._withhold(fault, request, frame):
            self._client.forward(frame)
        if request is not None:
            if fault is not None and (fault.black_hole or fault.drop == "before"):
                self._client.conversation.lose(request.correlation_id, "lost by a fault")
            if getattr(request.message, "acks", None) == 0:
                self._faults.count(late)
                if action in {"disconnect", "error", "truncate"}:
                    self._client.end()
                return
        if fault is None or (action not in {"black_hole", "late"} and "before" not in {fault.drop, fault.disconnect}):
            refused = fault is not None and action == "error" and not fault.applied
            response = _refuse(request, fault) if refused and request is not None and fault is not None else None
            self._slots.append(_Slot(request, effect, late, response))
            if response is None:
                return  # The broker's answer counts.
            self._client.conversation.response(response, len(response))
            self._flush()
        self._faults.count(late)

    def _withhold(self, fault: Fault, request: _Request, frame: bytes) -> bool:
        """Do what happens before a request is forwarded. Return whether it is not forwarded now."""
        if fault.black_hole:
            self._is_black_hole = True
        elif fault.late is not None:
            is_answered = getattr(request.message, "acks", None) != 0
            forward = self._client.detach_broker(is_answered=is_answered)
            self._faults.add_late(fault.late, request, lambda: forward(frame))
        elif fault.disconnect == "before":
            self._client.end()
        else:
            return fault.drop == "before" or (fault.error is not None and not fault.applied)
        return True

    def _find_slot(self, frame: bytes) -> _Slot | None:
        """Return the slot of a response. Responses without a correlation id come in order."""
        correlation_id: int = _INT32.unpack_from(frame, PREFIX)[0] if len(frame) >= _BODY else -1
        waiting = [slot for slot in self._slots if slot.response is None]
        for slot in waiting:
            if slot.request is not None and slot.request.correlation_id == correlation_id:
                return slot
        return waiting[0] if waiting and waiting[0].request is None else None

    def _flush(self) -> None:
        """Send the responses whose turn has come. A late one blocks those after it."""
        while self._slots and self._slots[0].response is not None and not self._waits and not self._is_black_hole:
            slot = self._slots[0]
            if slot.effect is not None and slot.effect.delay_ms and not slot.is_delayed:
                slot.is_delayed = self._waits = True
                asyncio.get_running_loop().call_later(slot.effect.delay_ms / 1000, self._resume)
                return
            self._slots.popleft()
            self._send(slot)

    def _resume(self) -> None:
        self._waits = False
        self._flush()

    def _send(self, slot: _Slot) -> None:
        response, effect, request = slot.response, slot.effect, slot.request
        assert response is not None
        if effect is None or request is None:
            self._client.write(response)
            return
        fault = effect.fault
        if fault is not None and fault.applied:
            response = _refuse(request, fault)
        if fault is not None and fault.stale_metadata is not None:
            response = self._faults.age(request, fault.stale_metadata)
        if effect.throttle_ms:
            response = _throttle(request, response, effect.throttle_ms)
        if fault is not None and fault.corrupt is not None:
            response = bytearray(response)
            corrupt_frame(response, fault)
        if fault is not None and fault.truncate is not None:
            response = response[: fault.truncate]
        if effect.is_paced:
            self._waits = True
            self._write_pieces(effect.pieces(response), effect)
            return
        if fault is None or "after" not in {fault.drop, fault.disconnect}:
            self._client.write(response)
        if fault is not None and (fault.disconnect or fault.truncate is not None):
            self._client.end()
        else:
            self._hold_client(effect)

    def _write_pieces(self, pieces: Iterator[tuple[bytes | bytearray, float]], effect: MatchedFault) -> None:
        """Write a response in pieces. The responses after it wait."""
        piece, pause_ms = next(pieces, (None, 0))
        if piece is None or self._client.is_closing:
            self._hold_client(effect)
            self._resume()
        else:
            self._client.write(piece)
            asyncio.get_running_loop().call_later(pause_ms / 1000, self._write_pieces, pieces, effect)

    def _hold_client(self, effect: MatchedFault) -> None:
        """Read nothing from the client for the throttle time."""
        if effect.throttle_ms:
            self._client.hold("throttled")
            asyncio.get_running_loop().call_later(effect.throttle_ms / 1000, self._client.release, "throttled")


def _field_of_broker(fault: Fault) -> str | None:
    """Return the name of a field of the fault that only a broker can honor, not a proxy, or None."""
    if fault.corrupt == "records":
        return "corrupt"
    return next((name for name in ("node", "fetch_bytes") if getattr(fault, name) is not None), None)


def _is_possible(fault: Fault, context: RequestContext) -> bool:
    """Return whether a proxy can do this to a request.

    An error in place of Metadata would leave out the brokers, and one for some partitions would refuse others, too.
    """
    if _field_of_broker(fault) is not None:
        return False
    return fault.error is None or (context.api != "Metadata" and all(map(fault.applies_to, context.targets)))


def _split(kept: bytearray, data: bytes) -> Iterator[bytes]:
    """Yield the whole frames, and keep the rest. An invalid length is a frame of its own."""
    kept += data
    while len(kept) >= PREFIX:
        size = PREFIX + max(_INT32.unpack_from(kept)[0], 0)
        if len(kept) < size:
            return
        frame = bytes(kept[:size])
        del kept[:size]
        yield frame


def _refuse(request: _Request, fault: Fault) -> bytearray:
    """Return the response with the error of a fault."""
    answer = error_answer(request.endpoint, request.message, request.version, cast("ErrorCode", fault.error))
    out = bytearray(request.body)
    encode(answer, request.version, out, [])
    _HEAD.pack_into(out, 0, len(out) - PREFIX, request.correlation_id)
    return out


def _throttle(request: _Request, response: bytes | bytearray, throttle_ms: int) -> bytes | bytearray:
    """Return a response with this throttle time, if it has one at its beginning, or at its end as that of Produce."""
    fields = [field for field in fields_of(request.endpoint.response) if request.version in field.present]
    names = [field.name for field in fields if request.version not in field.tagged_in]
    if names[0] == "throttle_time_ms":
        position = request.body
    elif names[-1] == "throttle_time_ms":
        position = len(response) - _INT32.size
        if request.version in request.endpoint.flexible:
            if response[-1]:  # the number of tagged fields, which follow
                return response
            position -= 1
    else:
        return response
    changed = bytearray(response)
    _INT32.pack_into(changed, position, throttle_ms)
    return changed
