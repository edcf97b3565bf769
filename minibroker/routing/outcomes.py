"""Outcomes of a request: an answer, a wait for one, or none."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.routing.delayed import DelayedResponse


class Answer(NamedTuple):
    """A response that is ready to be encoded; encoding waits until the wake-up's appends are written.

    Attributes:
        call: the `minibroker.requests.call.Call` of the request.
        entry: the request in the journal (`minibroker.inspection.journal.Entry`), if there is one.
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
"""Of what stands in the place of a request and is never delivered."""


class Waiting(NamedTuple):
    """A delayed response and the answer that it will be part of."""

    delayed: DelayedResponse
    answer: Answer


Outcome = Answer | Waiting | None
"""The next step of a connection after a request: send an answer, wait for one, or neither."""
