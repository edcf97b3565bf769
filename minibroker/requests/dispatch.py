"""Dispatch of a request: the short way if its bytes are known, else decode, authorize, handle (`KafkaApis.handle`).

`accept` tries the short way (`requests.repeats`). The long way is `accept_whole`, whose last step is `serve`: commit,
authorize, handle.

There are no sockets here: a test can drive it with bytes alone. Interceptors stand before it
(`minibroker.routing.interceptors`).
"""

import logging
from collections.abc import Callable, Sequence
from functools import cache
from types import GeneratorType
from typing import Any, Final, cast

from minibroker.cluster.fetch_sessions import FINAL_EPOCH, NO_SESSION
from minibroker.requests.call import Call
from minibroker.requests.endpoints import Endpoint, endpoint
from minibroker.requests.produce.many_batches import has_many_batches
from minibroker.requests.repeats import UNKNOWN
from minibroker.requests.session import Session
from minibroker.routing.delayed import DelayedResponse
from minibroker.routing.interceptors import Channel, Observer
from minibroker.routing.outcomes import NO_ANSWER, Answer, AnyOutcome, Filled, Outcome, Waiting, outcome_of
from minibroker.routing.routes import UnservedRequestError
from minibroker.services import Services
from minibroker.support.error_mapping import MAPPED, error_code_of
from minibroker.support.letting_go import let_go, long_lists
from minibroker.support.slices import Steps, Work, result_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import Splices, decode, decode_in_slices, encode_in_slices, encode_response
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError, EncodeError, TooManyElementsError
from minibroker_protocol.frame import (
    FrameReader,
    RequestHeader,
    begin_response,
    end_response,
    read_request_header,
)
from minibroker_protocol.primitives import skip_tagged_fields

_logger = logging.getLogger(__name__)


class SlicedRequest(DelayedResponse):
    """A request whose work goes on in slices.

    Attributes:
        finish: called once, with a function that returns the outcome or raises the error that has ended the request.
        amend: changes the outcome before it is encoded; its arguments are the outcome, and for how many seconds the
            work has run.
        entry: what the journal has of the request, if its outcome does not know it.
    """

    finish: Callable[[Callable[[], Outcome]], None]

    def __init__(self, work: Work[Outcome], services: Services) -> None:
        self._work = work
        self._services = services
        self._is_gone = False
        self.amend: Callable[[Outcome, float], Outcome] | None = None
        self.entry: Any = None
        self._kept: list[list[Any]] = []
        work.then(self._done, self._failed)

    def cancel(self) -> None:
        """Let the work go on to its end, since half of a change would be worse, without a response."""
        self._is_gone = True

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return "its next slice: the request is large"

    def _done(self, outcome: Outcome) -> None:
        if self._is_gone:
            # The client has gone meanwhile: a fetch that would begin to wait now has no one to answer.
            if isinstance(outcome, Waiting):
                outcome.delayed.cancel()
            return
        if self.entry is not None:
            outcome = cast("Outcome", noted(outcome, self.entry))
        if self.amend is not None:
            outcome = self.amend(outcome, self._work.spent_s)
        if not isinstance(outcome, Answer):
            self._tell(outcome)
            return
        # The work may have staged appends in its last slice, and the answer claims them.
        self._services.core.writes.commit()
        # Freeing 200,000 elements takes 20 ms at once: they are held here, and let go in slices.
        self._kept = long_lists(outcome.response)
        try:
            encoding = self._services.core.slices.begin(_encoded(outcome))
        except Exception as error:  # noqa: BLE001 - the connection decides what it means
            self._failed(error)
            return
        if isinstance(encoding, Work):
            encoding.then(self._tell, self._failed)
        else:
            self._tell(encoding)

    def _tell(self, outcome: Outcome) -> None:
        if not self._is_gone:
            self.finish(lambda: outcome)
        if self._kept:  # the response is freed when this turn of the event loop ends
            self._services.core.call_soon(self._let_go)

    def _let_go(self) -> None:
        self._services.core.slices.begin(let_go(self._kept))

    def _failed(self, error: Exception) -> None:
        if self.entry is not None:
            self.entry.fail(error)

        def fail() -> Outcome:
            raise error

        if not self._is_gone:
            self.finish(fail)


Decoded = tuple[Endpoint, RequestHeader, Any, Call]
"""A decoded request. It is None, and the version of its call 0, for ApiVersions in a version that is not served."""

# An enum's members are looked up each time that they are named.
_PRODUCE: Final = ApiKey.PRODUCE
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_FEW_ELEMENTS: Final = 1000
"""A request with more elements in its arrays is decoded in slices."""
_FEW_BYTES: Final = 1 << 20
"""A request with more bytes, unless they are records, is decoded in slices: a handler may copy it in steps then."""
_APART: Final = frozenset(
    int(key).to_bytes(2, "big") for key in (ApiKey.METADATA, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS)
)
_FETCH: Final = ApiKey.FETCH
_FETCHES: Final = frozenset({_FETCH, ApiKey.SHARE_FETCH})
_UNSERVED: Final = (1, 0)


def accept(frame: memoryview, session: Session) -> AnyOutcome:
    """Serve one request frame of a connection, the short way if it is known.

    Raises DecodeError for bytes that are no such request and UnservedRequestError for one that is not in the table;
    in both cases the connection should close.
    """
    repeats = session.repeats
    if repeats is not None:
        outcome = repeats.take(frame)
        if outcome is not UNKNOWN:
            return outcome
    return accept_whole(frame, session)


def accept_whole(frame: memoryview, session: Session) -> Outcome:
    """`accept` the long way."""
    decoded = read(frame, session)
    if decoded is None:
        kept = session.keep(frame)
        return in_slices(_serve_large(kept, session), session.services, in_order=_is_in_order(kept))
    served, header, request, call = decoded
    response = serve(served, request, call)
    outcome = outcome_from(response, served, call.api_version, header.correlation_id, session.services)
    repeats = session.repeats
    # A request that needed slices is too large to be remembered, and was decoded from a copy.
    if repeats is not None and request is not None and not is_in_slices(outcome):
        repeats.learn(frame, served, request, outcome.response if isinstance(outcome, Answer) else None, call)
    return outcome


def is_in_slices(outcome: AnyOutcome) -> bool:
    """Whether the request is served in slices, and so is not to be remembered yet."""
    return isinstance(outcome, Waiting) and isinstance(outcome.delayed, SlicedRequest)


def outcome_from(response: Any, served: Endpoint, version: int, correlation_id: int, services: Services) -> Outcome:
    """The outcome of a request, from what its handler has returned; if that is steps, they begin here."""
    if isinstance(response, GeneratorType):
        steps = cast("Steps[Any]", response)
        try:  # most requests are small: their steps end before it is worth while to look at the clock
            next(steps)
            next(steps)
        except StopIteration as end:
            response = end.value
        else:
            rest = _outcome_in_slices(steps, served, version, correlation_id)
            return in_slices(rest, services, in_order=served.in_order)
    return outcome_of(response, version, correlation_id, flexible_header=version in served.flexible_answers)


def serve(endpoint: Endpoint, request: Any, call: Call) -> Any:
    """Commit, authorize, handle: return what the handler returns, or a response with the error that ended it.

    All but Produce see what was appended before them.
    """
    # Produce stages, and reads nothing of the log: all its appends of a wake-up are written together.
    if endpoint.route.key is not _PRODUCE:
        call.core.writes.commit()
    field = endpoint.deadline
    if field is not None and request is not None and request.timeout_ms <= 0 and getattr(request, field) != []:
        return _refused(endpoint, request, call, ErrorCode.REQUEST_TIMED_OUT)
    try:
        # Rights come last: an error fault has answered by now, whether the client may ask or not.
        if call.services.authorizer is None:
            response = endpoint.handle(request, call)
        else:
            response = _guard()(endpoint, request, call)
    except Exception as error:  # noqa: BLE001 - the client gets the error
        return _failed(endpoint, request, call, error)
    if isinstance(response, GeneratorType):
        return _completed(cast("Steps[Any]", response), endpoint, request, call)
    return response


def _completed(steps: Steps[Any], endpoint: Endpoint, request: Any, call: Call) -> Steps[Any]:
    """Take the steps of a handler; return its response, or one with the error that ended it."""
    try:
        return (yield from steps)
    except Exception as error:  # noqa: BLE001 - the client gets the error
        return _failed(endpoint, request, call, error)


def _failed(endpoint: Endpoint, request: Any, call: Call, error: Exception) -> Any:
    """Return a response with the error that a handler has let through (`KafkaApis.handle`).

    Raises:
        Exception: The error itself, which closes the connection, where no response can carry an error.
    """
    has_no_response = endpoint.route.key is _PRODUCE and request.acks == 0
    if request is None or has_no_response or isinstance(error, DecodeError | EncodeError | UnservedRequestError):
        raise error
    is_expected = isinstance(error, MAPPED)
    _logger.error("%s failed: %s", endpoint.route.key.name, error, exc_info=None if is_expected else error)
    return _refused(endpoint, request, call, error_code_of(error))


def _refused(endpoint: Endpoint, request: Any, call: Call, code: ErrorCode) -> Any:
    from minibroker.requests.refusals import error_answer  # noqa: PLC0415 - most brokers never need it

    return error_answer(endpoint, request, call.api_version, code)


@cache
def _guard() -> Callable[[Endpoint, Any, Call], Any]:
    """The guard's `serve`, imported with the first request of a broker that has an authorizer."""
    from minibroker.requests import guard  # noqa: PLC0415 - most brokers have no authorizer

    return guard.serve


def in_slices(steps: Steps[Outcome], services: Services, *, in_order: bool) -> Outcome:
    """The outcome of `steps`, or a `Waiting` for it when there is more to do than fits into a slice."""
    outcome = services.core.slices.begin(steps, in_order=in_order)
    if isinstance(outcome, Work):
        return Waiting(SlicedRequest(outcome, services), NO_ANSWER)
    return outcome


def accept_observed(observer: Observer, channel: Channel, frame: memoryview, session: Session) -> Outcome:
    """`accept_whole` for a broker with an observer, which serves the request."""
    try:
        decoded = read(frame, session)
    except (DecodeError, UnservedRequestError) as error:
        observer.note_refused(channel, frame, session, error)
        raise
    if decoded is None:
        return accept_large(observer, channel, frame, session)
    return in_slices(observer.serve(channel, decoded, frame), session.services, in_order=decoded[0].in_order)


def accept_large(observer: Observer, channel: Channel, frame: memoryview, session: Session) -> Outcome:
    """`accept_observed` of a request that `read` leaves to be read in slices."""
    frame = session.keep(frame)
    return in_slices(_observe_large(observer, channel, frame, session), session.services, in_order=_is_in_order(frame))


def noted(outcome: AnyOutcome, entry: Any) -> AnyOutcome:
    """The outcome of a request that has an entry in the journal."""
    if outcome is None:
        entry.end()
    elif isinstance(outcome, Answer):
        return Answer(outcome[0], outcome[1], outcome[2], outcome[3], entry, outcome[5])
    elif isinstance(outcome, Waiting):
        if isinstance(outcome.delayed, SlicedRequest):
            outcome.delayed.entry = entry
        return Waiting(outcome.delayed, outcome.answer._replace(entry=entry))
    else:
        outcome.entry = entry
    return outcome


def _observe_large(observer: Observer, channel: Channel, frame: memoryview, session: Session) -> Steps[Outcome]:
    try:
        decoded = yield from _read_large(frame, session)
    except (DecodeError, UnservedRequestError) as error:
        observer.note_refused(channel, frame, session, error)
        raise
    return (yield from observer.serve(channel, decoded, frame))


def _serve_large(frame: memoryview, session: Session) -> Steps[Outcome]:
    """Serve a request from its first byte in slices."""
    served, header, request, call = yield from _read_large(frame, session)
    kept = long_lists(request)
    response = serve(served, request, call)
    del request
    outcome = yield from _outcome_in_slices(response, served, call.api_version, header.correlation_id)
    yield from let_go(kept)
    return outcome


def _outcome_in_slices(response: Any, served: Endpoint, version: int, correlation_id: int) -> Steps[Outcome]:
    flexible_header = served.has_flexible_response_header(version)
    result = yield from result_of(response)
    return outcome_of(result, version, correlation_id, flexible_header=flexible_header)


def _encoded(answer: Answer) -> Steps[Answer]:
    """The answer with its bytes."""
    out = bytearray()
    splices: Splices = []
    start = begin_response(out, answer.correlation_id, flexible_header=answer.flexible_header)
    yield from encode_in_slices(answer.response, answer.version, out, splices)
    end_response(out, start, sum(splice.size for _, splice in splices))
    return answer._replace(encoded=(out, splices))


def read(frame: memoryview, session: Session) -> Decoded | None:
    """Decode a request; errors as those of `accept`.

    None for one to be read by `_read_large` from a copy of the frame: it has many elements, bytes or batches, or has to
    wait for others of its kind, or for its group.
    """
    services = session.services
    served, header, version, body = _read_header(frame, services)
    if services.is_loading_groups and _is_about_groups(served):
        return None
    request: Any = None
    if body is not None:
        # Of a Produce the bytes are records, which are not decoded here.
        if len(frame) > _FEW_BYTES and served.route.key is not _PRODUCE:
            return None
        try:  # Kafka passes over bytes after the end, too
            request, _ = decode(served.request, frame, version, body, _FEW_ELEMENTS)
        except TooManyElementsError:
            return None
    if served.in_order:
        # Two changes of metadata must not overlap: CreateTopics behind a large DeleteTopics has to see its end.
        if services.core.slices.has_work_in_order:
            return None
    elif served.route.key is _PRODUCE and has_many_batches(request):  # which lie in memory that is used again
        return None
    return served, header, request, Call(services.core, services, version, header.client_id, session)


def _read_large(frame: memoryview, session: Session) -> Steps[Decoded]:
    """Decode a request in slices, and load its groups; TooManyElementsError for more elements than are allowed."""
    services = session.services
    served, header, version, body = _read_header(frame, services)
    request = None
    if body is not None:
        most = services.core.config.integer("minibroker.request.elements.max")
        request, _ = yield from decode_in_slices(served.request, frame, version, body, most)
    if services.is_loading_groups and _is_about_groups(served):
        yield from _groups_loaded(served, request, session)
    return served, header, request, Call(services.core, services, version, header.client_id, session)


def _is_about_groups(served: Endpoint) -> bool:
    from minibroker.requests.targets import is_about_groups  # noqa: PLC0415 - only after a start, or a leader's move

    return is_about_groups(served)


def _groups_loaded(served: Endpoint, request: Any, session: Session) -> Steps[None]:
    """Wait for the groups that a request names; the handler refuses those that cannot be waited for."""
    from minibroker.requests.targets import groups_of  # noqa: PLC0415 - see above

    for group in groups_of(served.names, request):
        yield from session.services.groups.store.awaited(group, session.node)
        yield


def _is_in_order(frame: memoryview) -> bool:
    return endpoint(int.from_bytes(frame[:2], "big", signed=True)).in_order


def _read_header(frame: memoryview, services: Services) -> tuple[Endpoint, RequestHeader, int, int | None]:
    """(endpoint, header, version of the answer, where the request begins, or None if it is not to be read)."""
    header = read_request_header(frame)
    version = header.api_version
    served = endpoint(header.api_key)
    route = served.route
    first, last = (
        (route.first, route.last) if services.served is None else services.served.get(header.api_key, _UNSERVED)
    )
    if not first <= version <= last:
        # Kafka closes the connection, too: no error response could be written in a version that it does not know.
        if route.key is not _API_VERSIONS or not first <= last:
            raise UnservedRequestError(f"{route.key.name} v{version} is not served")
        # A client with an unknown version gets the table in the form that every client can read (KIP-511).
        return served, header, 0, None
    body = header.body
    if version in served.flexible:
        has_none = body < len(frame) and not frame[body]  # as nearly all headers
        body = body + 1 if has_none else skip_tagged_fields(frame, body)
    return served, header, version, body


def comes_apart(frame: memoryview) -> bool:
    """Whether the answers before the request in `frame` have to leave first.

    The request may remove the files that a fetch before it has found. Or its answer takes longer to encode than to
    find, and is encoded within the time that requests of one connection may take.
    """
    return bytes(frame[:2]) in _APART


def hasten(waiting: Waiting, reader: FrameReader, services: Services) -> None:
    """Have a delayed request answered early if it can be, and another complete request stands behind it."""
    frame = reader.peek_frame() if services.works_around_clients else None
    if frame is not None and _hastens(frame, services):
        waiting.delayed.hasten()


def _hastens(frame: memoryview, services: Services) -> bool:
    """Return whether the request in `frame` should not wait behind a fetch.

    A client that always sends its next fetch ahead would never wait; so a fetch counts only if it ends its session.
    """
    try:
        served, _, version, body = _read_header(frame, services)
        if body is None or served.route.key not in _FETCHES:
            return True
        request, _ = decode(served.request, frame, version, body, _FEW_ELEMENTS)
    except (DecodeError, UnservedRequestError):
        return False
    if served.route.key is not _FETCH:
        return bool(request.share_session_epoch == FINAL_EPOCH)
    return bool(request.session_epoch == FINAL_EPOCH and request.session_id != NO_SESSION)


class UnencodableAnswerError(Exception):
    """An answer has no form in the protocol, such as text that is too long; the message names its type and version.

    Attributes:
        data, splices: the frames of the answers before it, which can leave.
    """

    def __init__(self, message: str, data: bytearray, splices: Splices) -> None:
        super().__init__(message)
        self.data = data
        self.splices = splices


def encode_answers(answers: Sequence[Answer | Filled]) -> tuple[bytearray, Splices]:
    """The frames of `answers`, in order, with the holes that record data on disk will fill. UnencodableAnswerError."""
    out = bytearray()
    splices: Splices = []
    for answer in answers:
        if not isinstance(answer, Answer):
            frame = answer.filled()
            if frame is not None:
                if answer.entry is not None:
                    answer.entry.finish(None, frame)
                if out or not isinstance(frame, bytearray):
                    out += frame
                else:
                    out = frame
                continue
            answer = answer.unfilled()  # noqa: PLW2901 - the same answer in its other form
        if answer.encoded is not None:
            data, holes = answer.encoded
            if answer.entry is not None:
                answer.entry.finish(answer.response, bytes(data), holes)
            if not out:
                out, splices = answer.encoded  # which is large: a copy takes a millisecond for each MB
                continue
            splices += [(len(out) + position, splice) for position, splice in holes]
            out += data
            continue
        start, before = len(out), len(splices)
        try:
            encode_response(
                answer.response,
                answer.version,
                answer.correlation_id,
                out,
                splices,
                flexible_header=answer.flexible_header,
            )
        except EncodeError as error:
            del out[start:], splices[before:]
            raise UnencodableAnswerError(str(error), out, splices) from error
        if answer.entry is not None:
            frame = bytes(memoryview(out)[start:] if start else out)
            holes = [(position - start, splice) for position, splice in splices[before:]] if start else splices[before:]
            answer.entry.finish(answer.response, frame, holes)
    return out, splices
