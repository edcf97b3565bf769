"""Requests noted for the journal, on the short way and on the long way.

It stands in front of `dispatch` where a broker keeps a journal and has no faults.

A request of the short way is noted as cheaply as it is served. A note is the answer itself (`routing.outcomes.Noted`),
or stands beside an answer that is to be encoded (`NotedAnswer`), with a copy of the bytes that tell the request. The
journal makes an entry of it when it is read. All that is noted in one wake-up has the same times, so the clock
is read twice for each wake-up, not for each request. A request of the long way has an entry at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.requests.dispatch import accept_large, is_in_slices, noted, outcome_from, read, serve
from minibroker.requests.repeats import UNKNOWN
from minibroker.requests.same_request import SameRequest
from minibroker.routing.outcomes import Answer, AnyOutcome, Waiting
from minibroker.routing.routes import UnservedRequestError
from minibroker_protocol.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from minibroker.clock import Clock
    from minibroker.requests.same_request import KnownRequest
    from minibroker.requests.session import RepeatedRequests, Session
    from minibroker.routing.interceptors import Channel, Observer
    from minibroker.routing.outcomes import Notable, Noted

_ARE_ENTRIES: Final = frozenset({Waiting, type(None)})
"""Outcomes that get an entry at once."""


class Turn:
    """The times of the requests that one connection has in one wake-up.

    Attributes:
        time_ms, began_ms: when they came, since the epoch and on the monotonic clock.
        ended_ms: when they were answered; None before.
    """

    __slots__ = ("_monotonic_ms", "began_ms", "ended_ms", "time_ms")

    def __init__(self, clock: Clock) -> None:
        self.ended_ms: float | None = None
        self._monotonic_ms = clock.monotonic_ms
        self.time_ms = clock.now_ms()
        self.began_ms = clock.monotonic_ms()

    def finish(self, response: Any, frame: bytes, splices: Sequence[tuple[int, Any]] = ()) -> None:  # noqa: ARG002 - as that of an entry
        """One of the requests was answered, and the others are about to be."""
        if self.ended_ms is None:
            self.ended_ms = self._monotonic_ms()


class NotedAnswer:
    """A request of the short way whose answer is encoded, such as that to a Fetch: see `routing.outcomes.Noted`."""

    __slots__ = ("_observer", "_sent", "correlation_id", "entry", "head", "known", "made", "number", "size", "way")

    number: int

    def __init__(
        self,
        observer: Observer,
        way: SameRequest,
        known: KnownRequest,
        turn: Turn,
        frame: memoryview,
        correlation_id: int,
    ) -> None:
        self._observer = observer
        self.way = way
        self.known = known
        self.entry = turn
        self.correlation_id = correlation_id
        self.head = bytes(frame)
        self.size = len(frame)
        self.made: Any = None
        self._sent: tuple[Any, int] | None = None

    def finish(self, response: Any, frame: bytes, splices: Sequence[tuple[int, Any]] = ()) -> None:
        """It was answered: `frame`, with `splices` of files at their places, is about to go to the client."""
        self.entry.finish(response, frame)
        self._sent = self._observer.keep_response(self.way, response, frame, splices)

    def sent(self) -> tuple[Any, int] | None:
        """See `Noted`."""
        return self._sent


class Noting:
    """Notes the requests of one connection."""

    __slots__ = ("_add", "_channel", "_clock", "_observer", "_turn")

    def __init__(self, observer: Observer, channel: Channel, clock: Clock) -> None:
        self._observer = observer
        self._channel = channel
        self._clock = clock
        self._turn: Turn | None = None
        #: None where a watcher gets entries.
        self._add: Callable[[Noted], None] | None = None if observer.watcher else observer.journal.add

    def take(self, frame: memoryview, session: Session) -> AnyOutcome:
        """`dispatch.accept`, noted."""
        repeats = session.repeats
        if repeats is None:
            return self.take_whole(frame, session)
        turn = self._turn
        if turn is None or turn.ended_ms is not None:
            turn = self._turn = Turn(self._clock)
            if session.origin is None:
                self._observer.meet(self._channel, session)
        try:
            outcome = repeats.take(frame)
        except Exception as error:
            self._entry(turn, frame, repeats).fail(error)
            raise
        if outcome is UNKNOWN:
            self._turn = None
            return self.take_whole(frame, session, repeats)
        add = self._add
        if add is None or type(outcome) in _ARE_ENTRIES:
            return noted(outcome, self._entry(turn, frame, repeats))
        if type(outcome) is Answer:
            return self._note_answer(outcome, turn, frame, repeats, add)
        note = cast("Noted", outcome)
        if not self._is_plain(note.known, note.way):
            return noted(outcome, self._entry(turn, frame, repeats))
        cast("Notable", outcome).note(turn, frame)
        add(note)
        return outcome

    def _note_answer(
        self, answer: Answer, turn: Turn, frame: memoryview, repeats: RepeatedRequests, add: Callable[[Noted], None]
    ) -> Answer:
        way = repeats.way(frame)[0]
        known = way.known(frame) if isinstance(way, SameRequest) else None  # of a Produce only the head is kept
        if known is None or not self._is_plain(known, way):
            return cast("Answer", noted(answer, self._entry(turn, frame, repeats)))
        note = NotedAnswer(self._observer, way, known, turn, frame, answer.correlation_id)
        add(note)
        return Answer(answer[0], answer[1], answer[2], answer[3], note, answer[5])

    def _is_plain(self, known: Any, way: Any) -> bool:
        """Whether a request names all its targets itself: see `Noted`."""
        if known.is_plain is None:
            known.is_plain = self._observer.is_plain(known.request, way)
        is_plain: bool = known.is_plain
        return is_plain

    def take_whole(self, frame: memoryview, session: Session, repeats: RepeatedRequests | None = None) -> AnyOutcome:
        """`dispatch.accept_whole`, noted; `repeats` learns the request."""
        observer = self._observer
        try:
            decoded = read(frame, session)
        except (DecodeError, UnservedRequestError) as error:
            observer.note_refused(self._channel, frame, session, error)
            raise
        if decoded is None:
            return accept_large(observer, self._channel, frame, session)
        served, header, request, call = decoded
        entry = observer.begin(self._channel, decoded, frame)
        version = call.api_version
        outcome: AnyOutcome
        try:
            response = serve(served, request, call)
            if type(response) is served.response:
                flexible_header = version in served.flexible_answers
                outcome = Answer(response, version, header.correlation_id, flexible_header, entry)
            else:
                outcome = noted(outcome_from(response, served, version, header.correlation_id, call.services), entry)
        except Exception as error:
            entry.fail(error)
            raise
        if repeats is not None and request is not None and not is_in_slices(outcome):
            repeats.learn(frame, served, request, outcome.response if isinstance(outcome, Answer) else None, call)
        return outcome

    def _entry(self, turn: Turn, frame: memoryview, repeats: RepeatedRequests) -> Any:
        """The entry of a request that is not noted; the next one has times of its own."""
        self._turn = None
        way, correlation_id = repeats.way(frame)
        session = way.call.session
        came = turn.time_ms, turn.began_ms
        return self._observer.note_repeated(self._channel, frame, session, came, correlation_id, way)
