"""Interceptors: code that each request passes before its handler.

A request passes, in this order: authentication (SASL), the meter of quotas, the decoder (but for the short way,
`requests.repeats`), the observer (journal and faults), then `dispatch.serve`: commit, authorize, handle. A connection
composes the interceptors that there are into one function (`request_path.compose`), again only when
`Services.chain_version` has changed: those that are not there cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from minibroker.routing.outcomes import AnyOutcome, Outcome

if TYPE_CHECKING:
    from minibroker.support.slices import Steps
    from minibroker_protocol.codec import Splices
    from minibroker_protocol.frame import RequestHeader

Take = Callable[..., AnyOutcome]
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

    def serve(
        self, channel: Channel, decoded: tuple[Any, RequestHeader, Any, Any], frame: memoryview
    ) -> Steps[Outcome]:
        """Write down and serve a request, `dispatch.Decoded`, that has come in `frame`."""
        ...

    def begin(self, channel: Channel, decoded: tuple[Any, RequestHeader, Any, Any], frame: memoryview) -> Any:
        """Write down a request, `dispatch.Decoded`, that has come in `frame`; returns its entry in the journal."""
        ...

    def meet(self, channel: Channel, session: Any) -> Any:
        """Give a session its `origin`, and return it."""
        ...

    def keep_response(
        self, way: Any, response: Any, frame: bytes, splices: Sequence[tuple[int, Any]]
    ) -> tuple[Any, int]:
        """The form in which the journal keeps a response to a request of a `repeats.ShortWay`, and its size."""
        ...

    def is_plain(self, request: Any, way: Any) -> bool:
        """Whether a request of a short way names all its targets itself, each time that it comes."""
        ...

    def note_repeated(
        self, channel: Channel, frame: memoryview, session: Any, came: tuple[int, float], correlation_id: int, way: Any
    ) -> Any:
        """Write down a request that has taken the short way; returns its entry in the journal."""
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
