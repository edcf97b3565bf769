"""Outcomes of a request: an answer, a wait for one, or none. `Take` is what makes them, `Channel` what sends them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from minibroker_protocol.codec import Splices


class DelayedResponse:
    """The base of responses that wait for something, like Kafka's `DelayedOperation`.

    A handler returns one, and calls `deliver` with the response later, once. `server.connection` parks it, and serves
    no further request of the connection until then, as Kafka's does.
    """

    deliver: Callable[[Any], None]

    def cancel(self) -> None:
        """Forget the request, because its client disconnected."""

    def hasten(self) -> None:
        """Answer early if the request allows it, because another request of the connection waits for the answer."""

    def waits_for(self) -> str:
        """Return what the response waits for, for people: "appends to orders-0"."""
        return "work that goes on"


class Answer(NamedTuple):
    """A response that is ready to be encoded; encoding waits until the wake-up's appends are written.

    Attributes:
        call: the `minibroker.server.requests.call.Call` of the request.
        entry: the request in the journal (`minibroker.server.inspection.journal.Entry`), if there is one.
    """

    response: Any
    call: Any
    correlation_id: int
    entry: Any = None


make_answer: Final[Callable[[tuple[Any, Any, int, Any]], Answer]] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType] - of any tuple
    Answer,
)
"""Makes an `Answer` of all its fields in a third of the time."""

NO_ANSWER: Final = Answer(None, None, 0)
"""The answer of a `Waiting` that is never delivered."""


class Waiting(NamedTuple):
    """A delayed response and the answer that it will be part of."""

    delayed: DelayedResponse
    answer: Answer


Outcome = Answer | Waiting | None
"""The next step of a connection after a request: send an answer, wait for one, or neither."""

Take = Callable[..., Outcome]
"""Serves a frame of a session: `take(frame, session)`."""


class Channel(Protocol):
    """The connection of a request (`minibroker.server.connection.Connection`, Kafka's `KafkaChannel`)."""

    @property
    def ends(self) -> tuple[Any, Any]:
        """The addresses of both ends, the broker's first; None for an unknown one."""
        ...

    def send(self, data: bytearray, splices: Splices) -> None:
        """Send bytes."""
        ...

    def release(self) -> None:
        """Serve the requests that wait after this one."""
        ...

    def end(self) -> None:
        """Close the connection once all data has been sent."""
        ...

    def abort(self) -> None:
        """Close the connection immediately."""
        ...

    def fail(self, error: Exception) -> None:
        """Log why a request could not be answered, and close the connection."""
        ...

    def swallow(self) -> None:
        """Keep reading, and ignore what arrives."""
        ...
