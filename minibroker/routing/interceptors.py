"""Interceptors: code that each request passes before its handler.

A request passes, in this order: authentication (SASL), the meter of quotas, the decoder, the observer (journal and
faults), then `dispatch.serve`: commit, authorize, handle. A connection
composes the interceptors that there are into one function (`request_path.compose`), again only when
`Services.chain_version` has changed: those that are not there cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from minibroker.routing.outcomes import Outcome

if TYPE_CHECKING:
    from minibroker.support.slices import Steps
    from minibroker_protocol.codec import Splices

Take = Callable[..., Outcome]
"""Serves a frame of a session: `take(frame, session)`."""


class Channel(Protocol):
    """The connection as interceptors see it (`minibroker.server.connection.Connection`, Kafka's `KafkaChannel`)."""

    @property
    def ends(self) -> tuple[Any, Any]:
        """The addresses of both ends, ours first; None for what is not known."""
        ...

    def send(self, data: bytearray, splices: Splices) -> None:
        """Send bytes."""
        ...

    def release(self) -> None:
        """Serve what waits behind the request."""
        ...

    def end(self) -> None:
        """Close the connection once all has left that was sent."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...

    def fail(self, error: Exception) -> None:
        """Log why a request could not be answered, and close the connection."""
        ...

    def swallow(self) -> None:
        """Read on, and do nothing with what comes."""
        ...


class Interceptor(Protocol):
    """Stands before the handlers of a broker."""

    def before(self, take: Take, channel: Channel) -> Take:
        """`take` with this interceptor before it, for one connection."""
        ...


class Observer(Protocol):
    """Keeps the journal and has the faults: it stands between the decoder and `dispatch.serve`.

    Attributes:
        journal, faults: see `minibroker.faults.observed`, which has their types; None where there are none.
        watcher: is called with the entry of each request that is over; None for no call.
    """

    journal: Any
    faults: Any
    watcher: Any

    def serve(self, channel: Channel, decoded: tuple[Any, Any, int], frame: memoryview) -> Steps[Outcome]:
        """Write down and serve a request that has come in `frame`: the message, its call and the correlation id."""
        ...

    def begin(self, channel: Channel, decoded: tuple[Any, Any, int], frame: memoryview) -> Any:
        """Write down a request; returns its entry in the journal."""
        ...

    def begin_plain(self, channel: Channel, call: Any, correlation_id: int, size: int, values: Any) -> Any:
        """Write down a request that was served in the plain shape; returns its entry in the journal."""
        ...

    def note_refused(self, channel: Channel, frame: memoryview, session: Any, error: Exception) -> None:
        """Write down a frame that cannot be decoded."""
        ...


class Tap(Protocol):
    """Sees the frames of one connection (`minibroker.inspection.tape.Tap`)."""

    def before(self, take: Take) -> Take:
        """`take` that notes each request first."""
        ...

    def flush(self) -> None:
        """A turn is over: show its requests."""
        ...

    def sent(self, data: bytearray, splices: Splices) -> None:
        """Responses leave."""
        ...

    def close(self) -> None:
        """The connection is over."""
        ...


class Tape(Protocol):
    """Sees the frames of all connections (`minibroker.inspection.tape.Tape`)."""

    def tap(self, ends: tuple[Any, Any], node: int) -> Tap:
        """A tap for one connection to a node; `ends` are the addresses of both ends, ours first."""
        ...
