"""The connection of one client (Kafka's `Processor` and `KafkaChannel`).

Bytes come in, responses go out in order, and a delayed request is parked.

Everything that arrives in one wake-up of the event loop is served together: all complete requests are handled, their
appends are written, and their responses are sent in one piece. As in Kafka, a delayed request blocks the requests after
it. If the delayed request is a fetch, it is answered early when another request follows. If a client does not read its
responses, the broker stops reading its requests. This limits the memory that a connection can occupy.
"""

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.cluster.advice import SECURITY, explain_first_bytes, explain_missing_login
from minibroker.cluster.node import Node
from minibroker.cluster.routing.outcomes import NO_ANSWER, Answer, FrameHandler, Outcome, Waiting
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.server.connection_quotas import ConnectionPermit
from minibroker.server.outbox import Outbox
from minibroker.server.requests.dispatch import (
    SlicedRequest,
    UnencodableAnswerError,
    compose,
    encode_answers,
    hasten,
    must_send_earlier_first,
)
from minibroker.server.requests.session import Session, format_kafka_address
from minibroker.server.services import Services
from minibroker_protocol.codec import Splices
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.frame import FIRST_GRANT_BYTES, BufferPool, FrameReader
from minibroker_protocol.lazy_imports import lazy
from minibroker_storage.descriptors import is_shortage

with lazy:
    from minibroker.security.tls import names
    from minibroker.server.faults import effects
    from minibroker.server.requests import authentication, meter

if TYPE_CHECKING:
    # Imported for type checking only, because most brokers have no logins.
    from minibroker.security.listener_security import ListenerSecurity

_logger = logging.getLogger(__name__)

_WRITE_HIGH_WATER: Final = 0
"""Any byte that the kernel does not accept immediately pauses the connection.

The next bytes may come from a file, which requires an empty transport.
"""
_TLS_WRITE_HIGH_WATER: Final = 1
"""The limit for asyncio's TLS transport. With 0 it would stay paused. No file is sent directly to its socket."""

_TURN_S: Final = 0.005
"""The time for which a connection's requests are served before other connections get their turn, in seconds."""
_NOT_COMPOSED: Final = -1


class State(Enum):
    """The states of a connection, by their treatment of requests that have arrived.

    | State   | Requests that have arrived      | Next state                                                   |
    |---------|---------------------------------|--------------------------------------------------------------|
    | READY   | are served immediately          | PARKED: a request is delayed. YIELDED: its turn was long.    |
    |         |                                 | MUTED: the client is over a quota. CLOSING: a failure.       |
    | PARKED  | wait for a delayed response     | READY or MUTED after that response, YIELDED if more arrived  |
    | YIELDED | wait for other connections      | READY in the next round of the event loop                    |
    | MUTED   | wait until the quota has room   | READY after the delay                                        |
    | CLOSING | are dropped                     | none: the connection closes after sending all responses      |

    In every state, responses may wait for the client to read them (`Outbox.is_blocked`). In the meantime nothing is
    served or read.
    """

    READY = "ready"
    PARKED = "parked"
    YIELDED = "yielded"
    MUTED = "muted"
    CLOSING = "closing"


_READY: Final = State.READY  # A module constant is faster than looking up an enum's member for each request.
_PARKED: Final = State.PARKED


class ConnectionSet(set["Connection"]):
    """The open connections of a server."""

    def abort(self) -> None:
        """Abort all connections. They are closed in the loop's next round."""
        for connection in tuple(self):
            connection.abort()

    async def wait_aborted(self) -> None:
        """Abort all connections, and wait until they are closed."""
        self.abort()
        while self:  # noqa: ASYNC110 - the loop's next round ends them all; an event would have nothing to save
            await asyncio.sleep(0)


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of a connection; `dispatch` decides the responses.

    Args:
        services: The services of the broker.
        pool: Buffers, shared by all connections of the event loop.
        connections: The set of open connections, to which this one adds itself while it is open.
        node: The node whose listener accepted the connection. If the node has no advertised address, the client
            gets the address that it connected to.
        listener: The name of that listener.
        permit: The connection's permit under the quotas of that node.
        security: The TLS and SASL of the listener, or None for plaintext.

    Attributes:
        waiting: The delayed request, or the delay of a quota, for which later requests wait. None without a delay.
    """

    _transport: asyncio.Transport
    _outbox: Outbox
    _session: Session
    _take: FrameHandler

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
        self.waiting: Waiting | None = None
        self._stopped = False  # Whether reading is paused.
        self._listener = listener
        self._security = security
        self._permit = permit
        self._authentication: authentication.Authentication | None = None
        self._chain_version = _NOT_COMPOSED
        self._now_ms = services.core.clock.monotonic_ms
        self.node = node

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the session of a new connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._outbox = Outbox(self._transport, self._record_activity, self._on_drained)
        permit = self._permit
        permit.abort, permit.unsent = self.abort, self._transport.get_write_buffer_size
        self._record_activity()
        security = self._security
        is_tls = security is not None and security.tls is not None
        self._transport.set_write_buffer_limits(high=_TLS_WRITE_HIGH_WATER if is_tls else _WRITE_HIGH_WATER)
        self._connections.add(self)
        dialed, peer = self.ends
        self._session = Session(
            self._services,
            self.node,
            advertised=self.node.endpoints[self._listener].advertised or dialed[:2],
            client_host=format_kafka_address(peer),
            listener=self._listener,
        )
        self._session.keep = self._reader.keep
        if peer:
            self._session.client_port = peer[1]
        if security is not None:
            try:
                self._require_login(security)
            except OSError as error:
                self.fail(error)

    @property
    def is_open(self) -> bool:
        """Whether the client is connected."""
        return self in self._connections

    def client_certificate(self) -> bytes | None:
        """Return the client's TLS certificate in DER, or None without one."""
        tls = self._transport.get_extra_info("ssl_object")
        return None if tls is None else cast("bytes | None", tls.getpeercert(binary_form=True))

    @property
    def client(self) -> str:
        """The client's address as HOST:PORT."""
        return f"{self._session.client_host.removeprefix('/')}:{self._session.client_port}"

    def fileno(self) -> int:
        """Return the descriptor of the socket, or -1 after the socket was closed."""
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        return descriptor

    def _record_activity(self) -> None:
        """Record that bytes have arrived or left."""
        self._permit.active_ms = self._now_ms()

    def _require_login(self, security: "ListenerSecurity") -> None:
        """Set the client's principal from TLS, or require a login first."""
        session = self._session
        session.protocol = security.protocol
        try:
            session.principal = security.principal_of(self.client_certificate())
        except names.NoMappingError as error:
            _logger.info("A client from %s is refused: %s", session.client_host, error)
            self._transport.abort()
            return
        if security.mechanisms:
            session.authentication = self._authentication = authentication.Authentication(
                security, session, self, self._on_authenticated
            )
            # Before authentication, memory grows only with the received bytes. Otherwise a client without a login could
            # exhaust the memory by announcing large requests.
            self._reader.max_size = min(self._reader.max_size, security.max_receive_size)
            self._reader.grant = 0

    def _on_authenticated(self) -> None:
        self._reader.grant = FIRST_GRANT_BYTES
        self._reader.max_size = self._services.core.config.integer("socket.request.max.bytes")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Release all resources of the closed connection."""
        self._connections.discard(self)
        self._permit.release()
        self._state = State.CLOSING
        if self.waiting is not None:
            self.waiting.delayed.cancel()
            self.waiting = None
        self._session.calls.clear()  # The calls reference the session, so this breaks a reference cycle.
        if self._chain_version != _NOT_COMPOSED:
            del self._take  # The interceptors reference this connection, so this breaks a reference cycle.
            self._chain_version = _NOT_COMPOSED
        self._authentication = None
        del self._session.keep  # The method references the reader, which must not outlive the connection.
        if self._session.authentication is not None:
            self._session.authentication.close()
            # The session may outlive the connection, but must not keep the authentication alive.
            self._session.authentication = None
        self._session.close()
        self._outbox.close()
        self._reader.close()
        if self._session.origin is not None:
            self._session.origin.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer for the next bytes."""
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the requests in the bytes that have just arrived."""
        self._permit.active_ms = self._now_ms()
        self._reader.received(nbytes)
        self._serve()

    def pause_writing(self) -> None:
        """Stop serving until the kernel has accepted all outgoing bytes."""
        self._outbox.pause()

    def resume_writing(self) -> None:
        """Continue after the kernel has accepted all outgoing bytes."""
        self._outbox.resume()

    def close(self) -> None:
        """Close the connection from the broker's side. Pending responses are still sent if the client reads them."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._transport.abort()

    @property
    def ends(self) -> tuple[Any, Any]:
        """The addresses of both ends, the broker's first."""
        return self._transport.get_extra_info("sockname"), self._transport.get_extra_info("peername")

    def swallow(self) -> None:
        """Continue reading, but discard everything that arrives."""
        self._stopped = False
        self._transport.set_protocol(effects.BlackHole(self))
        self._transport.resume_reading()

    def _serve(self) -> None:
        """Handle all complete requests, write their appends, and send their responses."""
        answers: list[Answer] = []
        fault: Exception | None = None
        reader, services, session = self._reader, self._services, self._session
        # A fault, a quota or a journal may have been added or removed. Comparing versions once per wake-up is cheaper
        # than looking for all of them with every request.
        if services.chain_version != self._chain_version:
            self._chain_version = services.chain_version
            self._take = compose(services, self._authentication, self)
        take = self._take
        until = 0.0
        try:
            while self._state is _READY and (frame := reader.next_frame()) is not None:
                # A single request has no time limit, so the clock is not read.
                until = until or (perf_counter() + _TURN_S if reader.pending else 0.0)
                # A large request is served in slices. Earlier responses must not wait until it has ended.
                if answers and must_send_earlier_first(frame):
                    if not self._send(answers):
                        return
                    answers = []
                outcome = take(frame, session)
                # Like Kafka, which mutes the channel, serve one request of a connection at a time, so that responses
                # stay in order.
                if type(outcome) is Answer:
                    answers.append(outcome)
                elif outcome is not None:
                    self._park(cast("Waiting", outcome))
                if self.waiting is None:
                    if session.muted_ms:
                        self._mute()
                    elif not reader.pending:
                        break
                    # A client that pipelines thousands of requests must not block the loop. Let other connections run
                    # first.
                    elif perf_counter() > until:
                        self._yield_turn()
        except Exception as error:  # noqa: BLE001 - our own error must close only this connection
            fault = error
        self._end_turn(answers, fault)

    def _end_turn(self, answers: Sequence[Answer], fault: Exception | None) -> None:
        """Send the responses of a wake-up. Then continue reading, or close the connection after a failure."""
        if not self._send(answers):
            return
        if fault is not None:
            self.fail(fault)
            return
        # Handlers no longer use their views of the buffer, so its bytes can be moved, or the buffer can return to the
        # pool.
        reader, parked = self._reader, self.waiting
        reader.settle(paused=parked is not None and not reader.awaits_small_frame)
        if parked is not None and reader.pending:
            hasten(parked, reader, self._session)
        self._pause_or_resume_reading()

    def _yield_turn(self) -> None:
        self._state = State.YIELDED
        self._services.core.call_soon(self._resume_turn)

    def _resume_turn(self) -> None:
        """Serve the waiting requests after other connections have had their turn."""
        if self._state is State.YIELDED:
            self.release()

    def _park(self, waiting: Waiting) -> None:
        self._state, self.waiting = _PARKED, waiting
        delayed = waiting.delayed
        if isinstance(delayed, SlicedRequest):
            delayed.finish, delayed.fail = self._finish, self.fail
        else:
            delayed.deliver = self._deliver

    def _finish(self, outcome: Outcome) -> None:
        """Conclude a request that was served in slices."""
        self._state, self.waiting = _READY, None
        # After its last slice, a request may still have to wait, for example a large Fetch that finds too few records.
        if isinstance(outcome, Waiting):
            self._park(outcome)
            hasten(outcome, self._reader, self._session)
            return
        self._conclude([] if outcome is None else [outcome])

    def fail(self, error: Exception) -> None:
        """Close the connection because the received bytes are not a request, or a request could not be served."""
        level = logging.INFO
        if isinstance(error, DecodeError | UnservedRequestError):
            if self._advise(error):  # Such a client reconnects again and again, and one line of advice is enough.
                level = logging.DEBUG
        elif isinstance(error, EncodeError | UnencodableAnswerError):
            _logger.error("An answer cannot be encoded, so its connection closes: %s", error)
        # The first request of an API loads modules. Loading fails if file descriptors are short.
        elif is_shortage(error):
            _logger.error("A request could not be served, so its connection closes: %s", error)
        else:
            _logger.error("A request could not be served", exc_info=error)
        _logger.log(level, "Closing the connection from %s: %s", self._transport.get_extra_info("peername"), error)
        self.end()

    def _advise(self, error: Exception) -> bool:
        """Log advice about bytes that are not a request, or about a request before the login.

        Return False if there is no advice.
        """
        session = self._session
        advice = explain_first_bytes(self._reader.peek(4), session.listener)
        if advice is None and session.authentication is not None and session.authentication.is_early(error):
            advice = explain_missing_login(session.listener, session.protocol)
        if advice is not None:
            self._services.core.advice.advise(SECURITY, advice, advice)
        return advice is not None

    def end(self) -> None:
        """Stop serving requests, and close the connection once all responses are sent."""
        self._reader.close()
        self._state = State.CLOSING
        # `_on_drained` closes the connection after everything is sent. If the client does not read, the idle timeout
        # closes the connection.
        if self._outbox.is_blocked:
            self._pause_or_resume_reading()
        else:
            self.close()

    def _send(self, answers: Sequence[Answer]) -> bool:
        """Write pending appends, then send the responses. Return False if a response ended the connection."""
        writes = self._services.core.writes
        # Appends of this wake-up can complete fetches of other clients. These are answered immediately unless a request
        # of this connection is delayed.
        if self.waiting is None:
            writes.commit_and_wake()
        else:  # A completed fetch may belong to this connection. Its response must come after these responses.
            writes.commit()
        return not answers or self._answer(answers)

    def _answer(self, answers: Sequence[Answer]) -> bool:
        """Send responses. If one cannot be encoded, send the earlier ones, close the connection and return False."""
        try:
            data, splices = encode_answers(answers)
        except UnencodableAnswerError as error:
            if error.data:
                # Send the responses before the broken one, because they are complete and the client waits for them.
                self._outbox.send(error.data, error.splices)
            self.fail(error)
            return False
        self._outbox.send(data, splices)
        return True

    def send(self, data: bytearray, splices: Splices) -> None:
        """Send encoded responses, possibly changed by a fault, regardless of delayed requests."""
        self._outbox.send(data, splices)

    def _deliver(self, response: Any) -> None:
        """Send the response of the delayed request."""
        if self._state is _PARKED and self.waiting is not None:
            answer = self.waiting.answer._replace(response=response)
            self._state, self.waiting = _READY, None
            self._conclude([answer])

    def _conclude(self, answers: Sequence[Answer]) -> None:
        """Send the response of a delayed request. Then serve the requests after it, unless the client is muted."""
        self._record_activity()
        if answers and not self._answer(answers):
            return
        if self._session.muted_ms:
            self._mute()
        elif self._reader.pending:
            self._yield_turn()  # The last slice may have taken long, so other connections run first.
            return
        self._pause_or_resume_reading()

    def _mute(self) -> None:
        """Mute a client that is over a quota."""
        muted = meter.Muted(self._services.core.clock, self._session.muted_ms, self.release)
        self._session.muted_ms = 0
        self._state, self.waiting = State.MUTED, Waiting(muted, NO_ANSWER)

    def release(self) -> None:
        """Stop waiting: serve the requests that have arrived in the meantime, or continue reading if there are none."""
        if self._state is not State.CLOSING:
            self._state, self.waiting = _READY, None
            if self._reader.pending:
                self._serve()
            else:
                self._pause_or_resume_reading()

    def _on_drained(self) -> None:
        """Continue after all responses have been sent."""
        if self._state is State.CLOSING:
            self.close()
        elif self._state is _READY and self._reader.pending:
            self._serve()
        else:
            self._pause_or_resume_reading()

    def _pause_or_resume_reading(self) -> None:
        """Pause or resume reading.

        Reading is paused while requests wait for a delayed request, or responses wait for the client to read them.
        """
        # Keep reading while no other request has arrived after a delayed one, because a closed connection is noticed
        # only by reading. An incomplete request is read to its end, because it may end the delay.
        reader = self._reader
        waits = self._state is not _READY and reader.pending > 0 and not reader.awaits_small_frame
        stop = waits or self._outbox.is_blocked
        if stop is self._stopped or self._transport.is_closing():
            return
        self._stopped = stop
        if stop:
            # asyncio reports a closed connection only while it reads. If bytes wait for a delayed request, the loss of
            # the client is noticed when that request ends, as in Kafka.
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
