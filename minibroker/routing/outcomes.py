"""Outcomes of a request: an answer, a wait for one, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from minibroker.routing.delayed import DelayedResponse

if TYPE_CHECKING:
    from minibroker_protocol.codec import Splices


class Answer(NamedTuple):
    """A response that is ready to be encoded; encoding waits until the wake-up's appends are written.

    `entry` is what the journal has of the request (`minibroker.inspection.journal.Entry`), if there is one, and
    `encoded` the whole frame of a large response, which was encoded in slices.
    """

    response: Any
    version: int
    correlation_id: int
    flexible_header: bool
    entry: Any = None
    encoded: tuple[bytearray, Splices] | None = None


NO_ANSWER: Final = Answer(None, 0, 0, flexible_header=False)
"""Of what stands in the place of a request and is never delivered."""


class Waiting(NamedTuple):
    """A delayed response and the answer that it will be part of."""

    delayed: DelayedResponse
    answer: Answer


@runtime_checkable
class Filled(Protocol):
    """An answer that needs no encoding, since its response has been encoded before: see `requests.repeats`.

    Attributes:
        entry: as that of `Answer`; of a noted answer the times of its wake-up (`requests.noting.Turn`).
    """

    entry: Any

    def filled(self) -> bytes | bytearray | None:
        """The frame, once the wake-up's appends are written; None when it has to be encoded after all.

        A bytearray is the caller's to change.
        """
        ...

    def unfilled(self) -> Answer:
        """The answer to be encoded."""
        ...


class Notable(Filled, Protocol):
    """An answer whose request the journal can note cheaply."""

    def note(self, turn: Any, frame: memoryview) -> None:
        """Keep what the journal needs: now the answer is `Noted`."""
        ...


class Noted(Protocol):
    """The stand-in for a request in the journal until it is read: a `Filled` answer, or a note beside an answer.

    Attributes:
        way, known: the short way that it has taken, and the request as that remembers it: its `request`, and whether
            this names all its targets itself (`is_plain`, None before the first look). They are there before it is
            noted.
        entry: the times of its wake-up (`requests.noting.Turn`).
        number, made: its number in the journal, and its entry there; None before the first look.
        head, size: the bytes that show the request, and the size of its frame.
    """

    entry: Any
    correlation_id: int
    way: Any
    known: Any
    number: int
    made: Any
    head: bytes
    size: int

    def sent(self) -> tuple[Any, int] | None:
        """The answer in a form of `inspection.kept`, and its size; None for one that has not left."""
        ...


Outcome = Answer | Waiting | None
"""The next step of a connection after a request: send an answer, wait for one, or neither."""
AnyOutcome = Outcome | Filled
"""The same, also of a request that has taken the short way."""


def outcome_of(
    response: Any, version: int, correlation_id: int, *, flexible_header: bool, entry: Any = None
) -> Outcome:
    """Turn the return value of a handler into an outcome."""
    if response is None:
        return None
    if isinstance(response, DelayedResponse):
        return Waiting(response, Answer(None, version, correlation_id, flexible_header, entry))
    return Answer(response, version, correlation_id, flexible_header, entry)
