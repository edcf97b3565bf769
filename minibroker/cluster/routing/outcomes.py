"""The outcomes of a request: an answer, a wait for an answer, or no answer.

A `FrameHandler` produces the outcome, and a `Channel` sends the answer. What a handler has not finished has two forms:

- A `DelayedResponse` waits for an event, such as an append or a rebalance. Its outcome is a `Waiting`.
- Work (`slices.ForEach`, or a generator of `Steps`) needs CPU. While `slices.Work` runs it, its outcome is a `Waiting`
  for a `dispatch.SlicedRequest`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from minibroker_protocol.codec import Splices


class DelayedResponse:
    """The base class of responses that wait for an event, like Kafka's `DelayedOperation`.

    A handler returns an instance, and later calls `deliver` once, with the response. `server.connection` parks the
    instance. Until the response is delivered, no further request of the connection is served, as in Kafka.
    """

    deliver: Callable[[Any], None]

    def cancel(self) -> None:
        """Cancel the request because its client disconnected."""

    def hasten(self) -> None:
        """Answer early, if the request permits it, because another request of the connection is waiting."""

    def waits_for(self) -> str:
        """Return a description of the awaited event, such as "appends to orders-0"."""
        return "work that goes on"


class ChangedResponse(DelayedResponse):
    """A delayed response that is passed through `change` before it is delivered."""

    def __init__(self, inner: DelayedResponse, change: Callable[[Any], Any]) -> None:
        self._inner = inner
        inner.deliver = lambda response: self.deliver(change(response))

    def cancel(self) -> None:
        """Cancel the request because its client disconnected."""
        self._inner.cancel()

    def hasten(self) -> None:
        """Answer early if the request permits it."""
        self._inner.hasten()

    def waits_for(self) -> str:
        """Return a description of the awaited event."""
        return self._inner.waits_for()


class Answer(NamedTuple):
    """A response to encode once the appends made during this wake-up have been written.

    Attributes:
        response: The response.
        call: The `minibroker.server.requests.call.Call` of the request.
        correlation_id: The correlation id of the request.
        entry: The request in the journal (`minibroker.server.inspection.journal.Entry`), or None.
    """

    response: Any
    call: Any
    correlation_id: int
    entry: Any = None


make_answer: Final[Callable[[tuple[Any, Any, int, Any]], Answer]] = partial(
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType] - any tuple
    Answer,
)
"""Creates an `Answer` from a tuple of its fields, in a third of the time of the constructor."""

NO_ANSWER: Final = Answer(None, None, 0)
"""The answer of a `Waiting` that is never delivered."""


class Waiting(NamedTuple):
    """A delayed response, and the answer that will contain it."""

    delayed: DelayedResponse
    answer: Answer


Outcome = Answer | Waiting | None
"""The next step of a connection after a request: send an answer, wait for an answer, or neither."""

FrameHandler = Callable[..., Outcome]
"""Serves a frame of a session: `take(frame, session)`."""


class Channel(Protocol):
    """The connection of a request (`minibroker.server.connection.Connection`, Kafka's `KafkaChannel`)."""

    @property
    def ends(self) -> tuple[Any, Any]:
        """The addresses of both ends, the broker's first. An unknown address is None."""
        ...

    def send(self, data: bytearray, splices: Splices) -> None:
        """Send bytes."""

    def release(self) -> None:
        """Serve the requests that are queued after the current request."""

    def end(self) -> None:
        """Close the connection once all data has been sent."""

    def abort(self) -> None:
        """Close the connection immediately."""

    def fail(self, error: Exception) -> None:
        """Log why a request cannot be answered, and close the connection."""

    def swallow(self) -> None:
        """Keep reading, but discard all data."""
