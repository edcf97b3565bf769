"""The recording of a broker's traffic: each request and its response, for the journal, the page and other watchers.

The recording is the outermost interceptor while there is a journal, a page, a watcher or a fault. Otherwise it
costs requests nothing. The ring has the newest exchanges: for a page with the bytes of both frames, for the
journal in forms that are decoded on demand (`message_forms`).

`RecordedRequest.end` is the only place where a request ends. It calls the watchers, such as
`log_slow_requests`.
"""

from __future__ import annotations

import struct
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.cluster.routing.outcomes import Waiting
from minibroker.cluster.routing.routes import ROUTES, UnservedRequestError
from minibroker.config.addresses import format_address
from minibroker.server.inspection.exchanges import EXCHANGE_SIZE, MAX_EXCHANGES, Kind, Origin, Ring
from minibroker.server.inspection.journal import DEFAULT_CAPACITY, Entry, Journal
from minibroker.server.inspection.message_forms import (
    frame_without_secrets,
    plain_request_form,
    request_form,
    resolve_targets,
    response_form,
)
from minibroker.server.inspection.message_json import detach, memory_of
from minibroker.server.requests.dispatch import SlicedRequest
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import message_from_values
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.frame import read_request_header
from minibroker_storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.cluster.core import Core
    from minibroker.cluster.routing.outcomes import Channel, FrameHandler, Outcome
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.session import Session
    from minibroker.server.services import Services
    from minibroker_protocol.codec import Splices
    from minibroker_storage.files import LogSlice


MAX_KEPT: Final = 1 << 20
"""The maximum bytes kept for a page: of a request, of a response in memory, and of a response's file ranges."""
SHORT: Final = 4096
"""Frames of at most this many bytes are always kept whole. Of a longer frame, at least its beginning is kept."""
MAX_PER_SECOND: Final = 1 << 26
"""The maximum bytes of longer frames kept per second. The ring would drop more bytes within the same second."""
_TARGET_SIZE: Final = 120
"""The estimated memory of a target of a request, in bytes."""
_LENGTH: Final = struct.Struct(">i")
_HEADER_SIZE: Final = 8
_GSSAPI: Final = b"\x60"
"""The first byte of the first GSSAPI token. Such a token has no header."""
_unpack_header: Final = struct.Struct(">hhi").unpack_from


class BrokerConnection(Origin):
    """The connection of recorded requests.

    Attributes:
        address: The broker's end of the connection, "HOST:PORT".
        node: The id of the broker.
        client_host: The client's address in Kafka's format, "/127.0.0.1".
        opened_after: The number of the last request before the connection's first one.
        request: The last request, until it has ended, or None.
        may_send_tokens: Whether the client has sent SaslHandshake. Bytes without a header may be tokens then.
    """

    def __init__(self, ends: tuple[Any, Any], node: int, client_host: str, core: Core, opened_after: int = 0) -> None:
        broker_address, client_address = map(_format_end, ends)
        super().__init__(client_address, f"{node} at {broker_address}")
        self.address = broker_address
        self.node = node
        self.client_host = client_host
        self.core = core
        self.opened_after = opened_after
        self.request: RecordedRequest | None = None
        self.may_send_tokens = False

    def close(self) -> None:
        """End the pending request, because the connection is closed."""
        self.is_closed = True
        if self.request is not None:
            self.request.end()


class RecordedRequest(Entry):
    """A request in progress, and its entry in the journal.

    Attributes:
        waits_since_ms: The time at which the request started to wait for other clients, on the monotonic clock, or
            None if it does not wait.
        waited_ms: The time for which the request waited before a fault held its response, in milliseconds, or None
            without such a fault.
    """

    _call: Call | None = None
    waited_ms: float | None = None
    waits_since_ms: float | None = None
    _is_over = False

    def __init__(
        self,
        recording: Recording,
        origin: BrokerConnection,
        frame: memoryview,
        began: tuple[int, float],
        call: Call | None = None,
    ) -> None:
        self._recording = recording
        self.origin = origin
        self.began = began
        size = len(frame)
        self.bytes_in = size + 4
        if size >= _HEADER_SIZE:
            self.header = _unpack_header(frame)
        else:
            self.kind = Kind.UNREADABLE
        if call is not None:  # Copy the endpoint and the client id, because the call is released after the response.
            self._call, self._endpoint, self.client_id = call, call.endpoint, call.client_id

    def keep(self, call: Call, frame: memoryview, request: Any) -> None:
        """Keep the message, which was decoded from `frame`."""
        self._request_form, self.memory = request_form(call.endpoint, frame, request)
        self._keep_targets(call, request)

    def keep_plain(self, call: Call, frame: memoryview, values: tuple[Any, ...]) -> None:
        """Keep a message in the plain shape, whose values were decoded from `frame`."""
        self._request_form, self.memory = plain_request_form(frame, values)
        if call.api_version in call.endpoint.with_ids:
            self._keep_targets(call, message_from_values(call.endpoint.request, values))

    def _keep_targets(self, call: Call, request: Any) -> None:
        targets = self._targets = resolve_targets(call, request)
        if targets is not None:
            self.memory += len(targets) * _TARGET_SIZE

    def settle(self, outcome: Outcome) -> None:
        """Record the outcome unless it is an answer. Answers are recorded by `finish`."""
        if outcome is None:
            self.expects_response = False
            self.end()
        elif isinstance(outcome, Waiting):
            if isinstance(outcome.delayed, SlicedRequest):
                outcome.delayed.recorded = self
            else:
                self.waits_since_ms = self._recording.monotonic_ms()

    def finish(self, response: Any, frame: bytearray, splices: Splices) -> None:
        """Record the response, which is sent as `frame` with `splices` from files inserted at their positions."""
        recording = self._recording
        self.ended_ms = recording.monotonic_ms()
        size, memory = len(frame), 0
        for _, part in splices:
            size += part.size
        if recording.keeps_messages and self._call is not None:
            self._response_form, memory = response_form(self._call, response, frame, splices)
        if recording.is_shown(self):
            memory += self._keep_response_frame(recording.splice_frame(frame, splices))
        recording.grow(self, memory)
        self.bytes_out = size
        self.end()

    def _keep_response_frame(self, frame: bytes | bytearray) -> int:
        """Keep the bytes of the response for a page, and return their size."""
        self.response_frame = frame_without_secrets(self, frame, is_request=False)
        return len(self.response_frame)

    def fail(self, error: Exception, frame: memoryview | None = None) -> None:
        """Record the reason why the request closes the connection, unless the request has already ended.

        Args:
            error: The reason.
            frame: The frame of a request of which only the header can be decoded. It contains the client id.
        """
        if self._is_over:
            return
        self.failure = str(error) or type(error).__name__
        if self._endpoint is None and frame is not None and self.kind is Kind.REQUEST:
            try:
                self.client_id = read_request_header(frame).client_id
            except DecodeError:
                self.header = RecordedRequest.header
        self.end()

    def end(self) -> None:
        """End the request, and call the watchers once."""
        if not self._is_over:
            self._is_over = True
            self._call = None
            if self.origin.request is self:
                self.origin.request = None
            if self.kind is not Kind.TOKEN:
                for watcher in self._recording.watchers:
                    watcher(self)

    def answer(self, response: Any) -> None:
        """Keep the handler's response before a fault changes it, and record the time that the request has waited."""
        copy = self._response_form = detach(response)
        self._recording.grow(self, memory_of(copy))
        self.waited_ms = 0.0
        if self.waits_since_ms is not None:
            self.waited_ms = self._recording.monotonic_ms() - self.waits_since_ms

    def sent(self, data: bytes | bytearray) -> None:
        """Record that raw bytes were sent instead of a regular response, and end the entry."""
        if self._recording.is_shown(self):
            self._recording.grow(self, self._keep_response_frame(bytes(data[: MAX_KEPT + _LENGTH.size])))
        self.ended_ms = self._recording.monotonic_ms()
        self.bytes_out = len(data)
        self.end()


class Recording:
    """The exchanges of one broker, and their users.

    Attributes:
        ring: The newest exchanges, or None if neither a journal nor a page needs them.
        journal: The journal, or None.
        has_faults: Whether faults are installed. The requests that they hit become entries, too.
        keeps_frames: Whether there is a page, which shows bytes.
        keeps_messages: Whether messages are needed in the form of the journal.
        watchers: Called with each request when it has ended.
    """

    def __init__(self, services: Services) -> None:
        clock = services.core.clock
        self._services = services
        self.monotonic_ms, self.read_both_ms = clock.monotonic_ms, clock.read_both_ms
        self.ring: Ring[Entry] | None = None
        self.journal: Journal | None = None
        self.has_faults = False
        self.keeps_frames = False
        self.keeps_messages = False
        self.watchers: tuple[Callable[[RecordedRequest], None], ...] = ()
        self._begun = 0
        self._credit: float = MAX_PER_SECOND
        self._credit_at = perf_counter()  # The limit protects this machine, so it does not use the broker's clock.

    @property
    def last_number(self) -> int:
        """The number of the newest request."""
        return self._begun if self.ring is None else self.ring.last

    def keep_journal(self, capacity: int = DEFAULT_CAPACITY) -> Journal:
        """Start a new journal, which replaces any existing one.

        Raises:
            ValueError: The capacity is below 1.
        """
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} is not at least 1")
        if self.ring is None or not self.keeps_frames:
            self.ring = Ring(capacity)
        journal = self.journal = Journal(self.ring, capacity, owns_ring=not self.keeps_frames)
        if self.keeps_frames:
            self.ring.max_exchanges = max(capacity, MAX_EXCHANGES)
            self.ring.journal_begins = journal.find_first_number
        self._settle()
        return journal

    def drop_journal(self) -> None:
        """Stop keeping a journal."""
        self.journal = None
        if not self.keeps_frames:
            self.ring = None
        elif self.ring is not None:
            self.ring.max_exchanges, self.ring.journal_begins = MAX_EXCHANGES, self.ring.after_all
        self._settle()

    def keep_frames(self) -> Ring[Entry]:
        """Keep the bytes of frames for a page from now on. This must be called before `keep_journal`."""
        self.ring = Ring(MAX_EXCHANGES)
        self.keeps_frames = True
        self._settle()
        return self.ring

    def is_shown(self, recorded: RecordedRequest) -> bool:
        """Return whether a page shows the bytes of a request."""
        return self.keeps_frames and self.ring is not None and recorded.number >= self.ring.first_shown

    def grow(self, recorded: RecordedRequest, size: int) -> None:
        """Add `size` bytes to the memory counted for a request."""
        if self.ring is not None:
            self.ring.grow(recorded, size)

    def watch(self, watcher: Callable[[RecordedRequest], None]) -> None:
        """Call `watcher` with each request when it has ended."""
        self.watchers = (*self.watchers, watcher)
        self._settle()

    def record_faults(self, *, has_faults: bool) -> None:
        """Record whether faults are installed."""
        self.has_faults = has_faults
        self._settle()

    def _settle(self) -> None:
        self.keeps_messages = self.journal is not None or bool(self.watchers) or self.has_faults
        self._services.recording = self if self.keeps_messages or self.keeps_frames else None
        self._services.chain_version += 1

    def begin(
        self,
        channel: Channel,
        frame: memoryview,
        session: Session,
        began: tuple[int, float],
        call: Call | None = None,
        request: Any = None,
    ) -> RecordedRequest:
        """Record a request that arrived in `frame`.

        Args:
            channel: The connection.
            frame: The request.
            session: The session of the connection.
            began: The time of arrival, on the wall clock and on the monotonic clock.
            call: The context of the request, or None for a rejected request.
            request: The message.
        """
        recorded = RecordedRequest(self, self._origin(channel, session), frame, began, call)
        if call is not None and self.keeps_messages:
            recorded.keep(call, frame, request)
        recorded.origin.request = recorded
        if call is None:
            frame = _drop_token(recorded, frame)
        elif call.endpoint.route.key is ApiKey.SASL_HANDSHAKE:
            recorded.origin.may_send_tokens = True
        self._add(recorded, frame)
        return recorded

    def begin_plain(
        self, channel: Channel, frame: memoryview, call: Call, values: tuple[Any, ...], began: tuple[int, float]
    ) -> RecordedRequest:
        """Record a request that was served in the plain shape, given the field values of its message."""
        recorded = RecordedRequest(self, self._origin(channel, call.session), frame, began, call)
        if self.keeps_messages:
            recorded.keep_plain(call, frame, values)
        self._add(recorded, frame)
        return recorded

    def _add(self, recorded: RecordedRequest, frame: memoryview) -> None:
        self._begun += 1
        recorded.number = self._begun  # A ring assigns its own numbers.
        if self.keeps_frames:
            kept_frame = b"".join((_LENGTH.pack(recorded.bytes_in - _LENGTH.size), frame[: self.room(len(frame))]))
            recorded.request_frame = frame_without_secrets(recorded, kept_frame, is_request=True)
            recorded.memory += EXCHANGE_SIZE + len(recorded.request_frame)
        if self.ring is not None:
            self.ring.add(recorded)

    def accept_login(self, take: FrameHandler, channel: Channel, frame: memoryview, session: Session) -> Outcome:
        """Serve a frame with `take`, and record it if SASL does not pass it on. Dispatch records all other frames."""
        began = self.read_both_ms()
        if session.authentication is not None and session.authentication.takes_tokens:
            token = RecordedRequest(self, self._origin(channel, session), frame, began)
            token.kind, token.header = Kind.TOKEN, RecordedRequest.header
            token.origin.request = token
            # Tokens are added only to recordings with frames, because the journal contains only requests.
            if self.keeps_frames:
                self._add(token, frame)
            return take(frame, session)
        before = self._begun
        try:
            return take(frame, session)
        except UnservedRequestError as error:
            # The request is not allowed before a login. It may be a token, so only a valid header is kept.
            if self._begun == before:
                refused = RecordedRequest(self, self._origin(channel, session), frame, began)
                header = _safe_header(refused, frame)
                if not header:
                    refused.kind, refused.header = Kind.UNREADABLE, RecordedRequest.header
                self._add(refused, header)
                refused.fail(error, frame)
            raise

    def _origin(self, channel: Channel, session: Session) -> BrokerConnection:
        origin: BrokerConnection | None = session.origin
        if origin is None:
            core = self._services.core
            origin = session.origin = BrokerConnection(
                channel.ends, session.node.id, session.client_host, core, self.last_number
            )
        return origin

    def room(self, size: int) -> int:
        """Return the number of bytes to keep of `size` bytes of a frame."""
        if size <= SHORT:
            return size
        now = perf_counter()
        credit = min(self._credit + (now - self._credit_at) * MAX_PER_SECOND, MAX_PER_SECOND)
        kept_size = min(size, MAX_KEPT)
        has_credit = kept_size <= credit
        self._credit, self._credit_at = credit - kept_size if has_credit else credit, now
        return kept_size if has_credit else SHORT

    def splice_frame(self, frame: bytearray, splices: Splices) -> bytearray | bytes:
        """Return a frame with its file ranges inserted. It ends early if a range is not kept completely."""
        limit = MAX_KEPT + _LENGTH.size
        if not splices:
            return frame[:limit]
        parts: list[bytes | bytearray] = []
        position = kept_size = 0
        for stop, splice in splices:
            log_slice = cast("LogSlice", splice)
            beginning = _read_beginning(log_slice, min(self.room(log_slice.size), MAX_KEPT - kept_size))
            parts += frame[position:stop], beginning
            position = stop
            kept_size += len(beginning)
            if len(beginning) < log_slice.size:
                break
        else:
            parts.append(frame[position:])
        return b"".join(parts)[: limit + kept_size]


def _drop_token(refused: RecordedRequest, frame: memoryview) -> memoryview:
    """Return the bytes to keep of a refused frame: at most a valid header if the frame may be a SASL token.

    Clients may send tokens even to a listener without SASL.
    """
    may_be_token = refused.origin.may_send_tokens or bytes(frame[:1]) == _GSSAPI
    return _safe_header(refused, frame) if may_be_token else frame


def _safe_header(refused: RecordedRequest, frame: memoryview) -> memoryview:
    """Return the bytes of a frame that cannot be secret, although the frame may be a token."""
    key, version, _ = refused.header
    is_known = any(route.key == key and route.first <= version <= route.last for route in ROUTES)
    return frame[: _HEADER_SIZE if is_known else 0]


def _read_beginning(part: LogSlice, room: int) -> bytes:
    """Return the first bytes of a file range, or b"" if its file was deleted."""
    try:
        return bytes(part._replace(size=min(part.size, room)).read())
    except (OSError, StorageError):
        return b""


def _format_end(end: Any) -> str:
    """Return the name of a socket as "HOST:PORT", or "?" if it is unknown."""
    return format_address(end[:2]) if end else "?"


def recording_of(services: Services) -> Recording:
    """Return the recording of a broker. Requests are intercepted only while the recording is in use."""
    return cast("Recording | None", services.recording) or Recording(services)


def journal_of(services: Services) -> Journal | None:
    """Return the journal of requests, or None."""
    return None if services.recording is None else recording_of(services).journal
