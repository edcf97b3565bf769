"""The connection of one client: bytes in, answers out in order; a delayed answer is parked here, the next ones wait.

Kafka's `Processor` and `KafkaChannel`.

Everything that arrives in one wake-up of the event loop is served together: all whole requests are handled, their
appends are written, and their answers leave in one piece. A delayed request holds back the requests behind it, as in
Kafka; a fetch that waits is answered early then. The broker stops reading from a client that does not read its answers.
So a connection makes the broker hold a limited number of bytes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.cluster.advice import SECURITY, about_first_bytes, about_unauthenticated
from minibroker.cluster.node import Node
from minibroker.cluster.routing.outcomes import NO_ANSWER, Answer, Outcome, Take, Waiting
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.server.connection_quotas import ConnectionPermit
from minibroker.server.outbox import Outbox
from minibroker.server.requests.dispatch import (
    SlicedRequest,
    UnencodableAnswerError,
    comes_apart,
    encode_answers,
    hasten,
)
from minibroker.server.requests.request_path import compose
from minibroker.server.requests.session import Session, address_in_kafka
from minibroker.server.services import Services
from minibroker_protocol.codec import Splices
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.frame import FIRST_GRANT_BYTES, BufferPool, FrameReader
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.descriptors import is_shortage

with lazy:
    from minibroker.security.tls import names
    from minibroker.server.faults import delayed_by_fault
    from minibroker.server.requests import authentication, meter

if TYPE_CHECKING:
    # Most brokers have no logins.
    from minibroker.security.listener_security import ListenerSecurity
    from minibroker.server.requests.authentication import Authentication

_logger = logging.getLogger(__name__)

_WRITE_HIGH_WATER: Final = 0
"""Any byte that the kernel does not take at once pauses the connection.

What comes next may be a file, which needs the socket free.
"""
_WRITE_HIGH_WATER_OF_TLS: Final = 1
"""The same for asyncio's TLS, which would pause at 0 bytes without an end. No file needs its socket."""

_TURN_S: Final = 0.005
"""For so many seconds requests of one connection are served, one after the other, before others have their turn."""
_NOT_COMPOSED: Final = -1


class State(Enum):
    """The states of a connection, by how it treats requests that have arrived.

    | State   | Requests that have arrived         | The next state                                                  |
    |---------|------------------------------------|-----------------------------------------------------------------|
    | READY   | are served at once                 | PARKED: a request is delayed. YIELDED: its turn was long.       |
    |         |                                    | MUTED: the client is over a quota. CLOSING: a fault.            |
    | PARKED  | wait for the response of one       | READY or MUTED with that response, YIELDED if more are waiting  |
    | YIELDED | wait for other connections' turns  | READY in the event loop's next round                            |
    | MUTED   | wait for a quota to have room      | READY when the time is over                                     |
    | CLOSING | are dropped                        | none: the connection closes once all answers have left          |

    In each state answers may wait for the client to read them (`Outbox.is_blocked`): then nothing is served or read.
    """

    READY = "ready"
    PARKED = "parked"
    YIELDED = "yielded"
    MUTED = "muted"
    CLOSING = "closing"


_READY: Final = State.READY  # An enum's members are looked up each time that they are named.
_PARKED: Final = State.PARKED


class ConnectionSet(set["Connection"]):
    """The open connections of a server."""

    async def abort(self) -> None:
        """Close all of them at once, and wait until they have said goodbye."""
        for connection in tuple(self):
            connection.abort()
        while self:  # noqa: ASYNC110 - the loop's next round ends them all; an event would have nothing to save
            await asyncio.sleep(0)


class Connection(asyncio.BufferedProtocol):
    """The asyncio side of a connection; what it says is decided in `dispatch`.

    Args:
        services: of the broker that serves.
        pool: buffers, shared by all connections of the loop.
        connections: the set of open connections, which this one enters and leaves.
        node: the one whose listener has taken the connection. Without an advertised address, this client gets the
            address that it has connected to.
        listener: the name of that listener.
        permit: its place among the connections of that node.
        security: its TLS and SASL; None for plaintext.
    """

    __slots__ = (
        "_authentication",
        "_chain_version",
        "_connections",
        "_listener",
        "_now_ms",
        "_outbox",
        "_parked",
        "_permit",
        "_reader",
        "_security",
        "_services",
        "_session",
        "_state",
        "_stopped",
        "_take",
        "_transport",
        "node",
    )

    _transport: asyncio.Transport
    _outbox: Outbox
    _session: Session
    _take: Take

    def __init__(
        self,
        services: Services,
        pool: BufferPool,
        connections: "ConnectionSet",
        node: Node,
        listener: str,
        permit: ConnectionPermit,
        security: "ListenerSecurity | None" = None,
    ) -> None:
        self._services = services
        self._connections = connections
        self._reader = FrameReader(pool, services.core.config.integer("socket.request.max.bytes"))
        self._state = _READY
        self._parked: Waiting | None = None  # the delayed request, or what mutes the connection
        self._stopped = False  # reading is paused: the client has to wait, or to read
        self._listener = listener
        self._security = security
        self._permit = permit
        self._authentication: Authentication | None = None
        self._chain_version = _NOT_COMPOSED
        self._now_ms = services.core.clock.monotonic_ms
        self.node = node

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._outbox = Outbox(self._transport, self._touch, self._on_drained)
        permit = self._permit
        permit.abort, permit.unsent = self.abort, self._transport.get_write_buffer_size
        self._touch()
        security = self._security
        is_tls = security is not None and security.tls is not None
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_OF_TLS if is_tls else _WRITE_HIGH_WATER)
        self._connections.add(self)
        dialed, peer = transport.get_extra_info("sockname")[:2], transport.get_extra_info("peername")
        self._session = Session(
            self._services,
            self.node,
            advertised=self.node.endpoints[self._listener].advertised or dialed,
            client_host=address_in_kafka(peer),
            listener=self._listener,
        )
        self._session.keep = self._reader.keep
        if peer:
            self._session.client_port = peer[1]
        if security is not None:
            try:
                self._secure(security)
            except OSError as error:
                self.fail(error)

    @property
    def is_open(self) -> bool:
        """Has the client connected, and not gone?"""
        return self in self._connections

    @property
    def waiting(self) -> Waiting | None:
        """The request that is delayed; None for none."""
        return self._parked

    @property
    def client(self) -> str:
        """The client's address, "HOST:PORT"."""
        return f"{self._session.client_host.removeprefix('/')}:{self._session.client_port}"

    def fileno(self) -> int:
        """Its socket's descriptor, -1 once it is closed."""
        found: int = self._transport.get_extra_info("socket").fileno()
        return found

    def _touch(self) -> None:
        """Something has come, or has left."""
        self._permit.active_ms = self._now_ms()

    def _secure(self, security: "ListenerSecurity") -> None:
        """Say who the client is, or have it say so first."""
        session = self._session
        session.protocol = security.protocol
        try:
            session.principal = security.principal_of(self._transport.get_extra_info("ssl_object"))
        except names.NoMappingError as error:
            _logger.info("A client from %s is refused: %s", session.client_host, error)
            self._transport.abort()
            return
        if security.mechanisms:
            session.authentication = self._authentication = authentication.Authentication(
                security, session, self, self._on_authenticated
            )
            # Before login a client gets no memory ahead of what it sends: strangers must not fill it with lengths.
            self._reader.max_size = min(self._reader.max_size, security.max_receive_size)
            self._reader.grant = 0

    def _on_authenticated(self) -> None:
        self._reader.grant = FIRST_GRANT_BYTES
        self._reader.max_size = self._services.core.config.integer("socket.request.max.bytes")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The client has gone, or we have closed."""
        self._connections.discard(self)
        self._permit.release()
        self._state = State.CLOSING
        if self._parked is not None:
            self._parked.delayed.cancel()
            self._parked = None
        self._session.calls.clear()  # which know the session
        if self._chain_version != _NOT_COMPOSED:
            del self._take  # which knows this connection
            self._chain_version = _NOT_COMPOSED
        self._authentication = None
        del self._session.keep  # which knows the reader
        if self._session.authentication is not None:
            self._session.authentication.close()
            self._session.authentication = None  # It knows this connection, and the session may outlive it.
        self._session.close()
        self._outbox.close()
        self._reader.close()
        if self._session.origin is not None:
            self._session.origin.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature; frames know better
        """Where asyncio puts the next bytes."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived."""
        self._permit.active_ms = self._now_ms()
        self._reader.received(nbytes)
        self._serve()

    def pause_writing(self) -> None:
        """The kernel has not taken all: serve no more until it has."""
        self._outbox.pause()

    def resume_writing(self) -> None:
        """The kernel has taken all."""
        self._outbox.resume()

    def close(self) -> None:
        """Close from our side; what was answered still leaves if the client reads it."""
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    @property
    def ends(self) -> tuple[Any, Any]:
        """The addresses of both ends, ours first."""
        return self._transport.get_extra_info("sockname"), self._transport.get_extra_info("peername")

    def swallow(self) -> None:
        """Read on, and do nothing with what comes."""
        self._stopped = False
        self._transport.set_protocol(delayed_by_fault.BlackHole(self))
        self._transport.resume_reading()

    def _serve(self) -> None:
        """Handle all whole requests that are here, write what they append, send their answers."""
        answers: list[Answer] = []
        fault: Exception | None = None
        reader, services, session = self._reader, self._services, self._session
        # A fault, a quota or a journal was added or removed. The test costs one comparison a wake-up; a chain that
        # looks for them at each request would cost every request.
        if services.chain_version != self._chain_version:
            self._compose()
        take = self._take
        until = 0.0
        try:
            while self._state is _READY and (frame := reader.next_frame()) is not None:
                until = until or (perf_counter() + _TURN_S if reader.pending else 0.0)  # one request needs no clock
                # A large request is served in slices. What was answered before it must not wait for its end.
                if answers and comes_apart(frame):
                    if not self._send(answers):
                        return
                    answers = []
                outcome = take(frame, session)
                # Kafka mutes the channel: one request of a connection at a time, so that responses keep their order.
                if type(outcome) is Answer:
                    answers.append(outcome)
                elif outcome is not None:
                    self._park(cast("Waiting", outcome))
                if self._parked is None:
                    if session.muted_ms:
                        self._mute()
                    elif not reader.pending:
                        break
                    # A client that pipelines thousands of requests must not hold the loop: others come first now.
                    elif perf_counter() > until:
                        self._yield_turn()
        except Exception as error:  # noqa: BLE001 - a fault of ours costs this connection, not the broker
            fault = error
        self._end_turn(answers, fault)

    def _compose(self) -> None:
        """Have requests pass by the interceptors that there are now."""
        self._chain_version = self._services.chain_version
        self._take = compose(self._services, self._authentication, self)

    def _end_turn(self, answers: Sequence[Answer], fault: Exception | None) -> None:
        """Send the answers of a wake-up, then read on, or close after a fault."""
        if not self._send(answers):
            return
        if fault is not None:
            self.fail(fault)
            return
        # Handlers are done with their views by now: the buffer may move its bytes, or go back to the pool.
        reader, parked = self._reader, self._parked
        reader.settle(paused=parked is not None and not reader.awaits_small_frame)
        if parked is not None and reader.pending:
            hasten(parked, reader, self._session)
        self._regulate()

    def _yield_turn(self) -> None:
        self._state = State.YIELDED
        self._services.core.call_soon(self._resume_turn)

    def _resume_turn(self) -> None:
        """Serve what has arrived, after other connections have had their turn."""
        if self._state is State.YIELDED:
            self.release()

    def _park(self, waiting: Waiting) -> None:
        self._state, self._parked = _PARKED, waiting
        delayed = waiting.delayed
        if isinstance(delayed, SlicedRequest):
            delayed.finish = self._finish
        else:
            delayed.deliver = self._deliver

    def _finish(self, outcome_of: Callable[[], Outcome]) -> None:
        """A request that was served in slices has come to its end."""
        self._state, self._parked = _READY, None
        try:
            outcome = outcome_of()
        except Exception as error:  # noqa: BLE001 - as above
            self.fail(error)
            return
        # A slice may end in a wait, such as a large Fetch that finds too little.
        if isinstance(outcome, Waiting):
            self._park(outcome)
            hasten(outcome, self._reader, self._session)
            return
        self._conclude([] if outcome is None else [outcome])

    def fail(self, error: Exception) -> None:
        """Close the connection: what has come is no request, or could not be served."""
        level = logging.INFO
        if isinstance(error, DecodeError | UnservedRequestError):
            if self._advise(error):  # such a client connects again and again, and one line is enough for people
                level = logging.DEBUG
        elif isinstance(error, EncodeError | UnencodableAnswerError):
            _logger.error("An answer cannot be encoded, so its connection closes: %s", error)
        elif is_shortage(error):  # the modules of an API load with its first request, which takes descriptors
            _logger.error("A request could not be served, so its connection closes: %s", error)
        else:
            _logger.error("A request could not be served", exc_info=error)
        _logger.log(level, "Closing the connection from %s: %s", self._transport.get_extra_info("peername"), error)
        self.end()

    def _advise(self, error: Exception) -> bool:
        """Give advice about bytes that are no request, or come too early. False without advice for them."""
        session = self._session
        advice = about_first_bytes(self._reader.peek(4), session.listener)
        if advice is None and session.authentication is not None and session.authentication.is_early(error):
            advice = about_unauthenticated(session.listener, session.protocol)
        if advice is not None:
            self._services.core.advised.advise(SECURITY, advice, advice)
        return advice is not None

    def end(self) -> None:
        """Serve no more; what was answered leaves, then the connection closes."""
        self._reader.close()
        self._state = State.CLOSING
        # It closes when all has left (`_on_drained`). A client that does not read is closed by `idle`.
        if self._outbox.is_blocked:
            self._regulate()
        else:
            self.close()

    def _send(self, answers: Sequence[Answer]) -> bool:
        """Write what was appended, then send the answers. False when one of them has ended the connection."""
        writes = self._services.core.writes
        # Appends of this wake-up may complete fetches of others. They look at once if nothing here is delayed.
        if self._parked is None:
            writes.commit_and_wake()
        else:  # one that is due may be ours, and its answer belongs behind these
            writes.commit()
        return not answers or self._answer(answers)

    def _answer(self, answers: Sequence[Answer]) -> bool:
        """Send answers. False when one of them cannot be encoded: those before it leave, then the connection closes."""
        try:
            data, splices = encode_answers(answers)
        except UnencodableAnswerError as error:
            if error.data:
                # Answers before the broken one are complete. The client would wait for them in vain.
                self._outbox.send(error.data, error.splices)
            self.fail(error)
            return False
        self._outbox.send(data, splices)
        return True

    def send(self, data: bytearray, splices: Splices) -> None:
        """Send encoded answers, or what a fault has made of them, whatever is delayed."""
        self._outbox.send(data, splices)

    def _deliver(self, response: Any) -> None:
        """A delayed request has its response."""
        if self._state is _PARKED and self._parked is not None:
            answer = self._parked.answer._replace(response=response)
            self._state, self._parked = _READY, None
            self._conclude([answer])

    def _conclude(self, answers: Sequence[Answer]) -> None:
        """Send the answer of a request that was delayed; then serve those behind it, unless the client has to wait."""
        self._touch()
        if answers and not self._answer(answers):
            return
        if self._session.muted_ms:
            self._mute()
        elif self._reader.pending:
            self._yield_turn()  # another connection may be in its turn, and the last slice of this one was long
            return
        self._regulate()

    def _mute(self) -> None:
        """Serve nothing more for a while: the client is over a quota."""
        muted = meter.Muted(self._services.core.clock, self._session.muted_ms, self.release)
        self._session.muted_ms = 0
        self._state, self._parked = State.MUTED, Waiting(muted, NO_ANSWER)

    def release(self) -> None:
        """Serve what has arrived while requests had to wait, or read on."""
        if self._state is not State.CLOSING:
            self._state, self._parked = _READY, None
            if self._reader.pending:
                self._serve()
            else:
                self._regulate()

    def _on_drained(self) -> None:
        """All answers have left; go on."""
        if self._state is State.CLOSING:
            self.close()
        elif self._state is _READY and self._reader.pending:
            self._serve()
        else:
            self._regulate()

    def _regulate(self) -> None:
        """Read on, unless requests are waiting behind a delayed one or answers for a client that does not read."""
        # Without bytes behind it a delayed request does not stop reading: that is how a closed connection is seen.
        # The rest of a request that has come in part is read, too: once complete it may end the delay.
        reader = self._reader
        waits = self._state is not _READY and reader.pending > 0 and not reader.awaits_small_frame
        stop = waits or self._outbox.is_blocked
        if stop is self._stopped or self._transport.is_closing():
            return
        self._stopped = stop
        if stop:
            # asyncio reports a closed connection only while it reads. If bytes wait behind a delayed request, the loss
            # of the client is noticed when that request ends, as in Kafka.
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
