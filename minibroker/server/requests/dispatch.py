"""Dispatch of a request: decode, authorize, handle (`KafkaApis.handle`).

`accept` takes a frame; its last step is `serve`: commit, authorize, handle.

There are no sockets here: a test can drive it with bytes alone. Interceptors stand before it (`request_path`).
"""

import logging
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - the alias names a class
from types import GeneratorType
from typing import Any, Final, cast

from minibroker.cluster.fetch_sessions import FINAL_EPOCH, NO_SESSION
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.outcomes import (
    NO_ANSWER,
    Answer,
    Channel,
    DelayedResponse,
    Outcome,
    Waiting,
    make_answer,
)
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.cluster.routing.slices import ForEach, Steps, Work, is_work, rescued, then
from minibroker.server.requests.call import Call
from minibroker.server.requests.endpoints import endpoint
from minibroker.server.requests.session import Session
from minibroker.server.services import Services
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import (
    UNDECODABLE,
    UNENCODABLE,
    Splices,
    decode_error,
    decoder_for,
    plain_codec_for,
    response_encoder_for,
)
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError, EncodeError
from minibroker_protocol.frame import FrameReader, read_request_header
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.primitives import skip_tagged_fields

with lazy:
    from minibroker.server.requests import guard, refusals, targets

_logger = logging.getLogger(__name__)


class SlicedRequest(DelayedResponse):
    """A request whose work is done in slices.

    Attributes:
        finish: called once, with a function that returns the outcome or raises the error that has ended the request.
        amend: changes the outcome before it is encoded; its arguments are the outcome, and for how many seconds the
            work has run.
        recorded: the request in the recording, if there is one.
    """

    finish: Callable[[Callable[[], Outcome]], None]

    def __init__(self, work: Work[Outcome], services: Services) -> None:
        self._work = work
        self._services = services
        self._is_gone = False
        self.amend: Callable[[Outcome, float], Outcome] | None = None
        self.recorded: Any = None
        work.then(self._done, self._failed)

    def cancel(self) -> None:
        """Let the work run to its end, since half of a change would be worse, without a response."""
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
        if self.amend is not None:
            outcome = self.amend(outcome, self._work.spent_s)
        if self.recorded is not None:
            self.recorded.settle(outcome)
        # The work may have staged appends in its last slice, and the answer claims them.
        self._services.core.writes.commit()
        self.finish(lambda: outcome)

    def _failed(self, error: Exception) -> None:
        def fail() -> Outcome:
            raise error

        if self.recorded is not None:
            self.recorded.fail(error)
        if not self._is_gone:
            self.finish(fail)


# An enum's members are looked up each time that they are named.
_PRODUCE: Final = ApiKey.PRODUCE
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_START: Final = Struct(">Ii")
"""API key and version as one number, and the correlation id."""
_HEADER_AT: Final = _START.size
_MAX_BYTES_UNKEPT: Final = 1 << 14
"""A larger request outlives the wake-up, since its handler may need it for several slices. Produce copies records."""
_MAX_HEADER_BYTES: Final = 256
"""A connection keeps no call of a longer header: clients may put anything into tagged fields."""
_APART: Final = frozenset(map(int, (ApiKey.METADATA, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS)))
_FETCH: Final = ApiKey.FETCH
_FETCHES: Final = frozenset({_FETCH, ApiKey.SHARE_FETCH})
_UNSERVED: Final = (1, 0)


def accept(frame: memoryview, session: Session) -> Outcome:
    """Serve one request frame of a connection.

    Raises:
        DecodeError: The bytes are no request.
        UnservedRequestError: The broker does not serve this API or version. In both cases the connection should close.
    """
    return _take(frame, *call_of(frame, session))


def _take(frame: memoryview, call: Call, correlation_id: int) -> Outcome:
    if call.may_wait and _has_to_wait(call):
        request = _decoded(call.session.keep(frame), call, is_kept=True)
        return in_slices(_after_loading(request, call, lambda: _served(request, call, correlation_id)), call.services)
    return outcome_from(serve(_decoded(frame, call), call), call, correlation_id)


def accept_plain(frame: memoryview, session: Session) -> Outcome:
    """`accept` for a broker where nothing but handlers looks at messages: requests in the plain shape have a short way.

    Its handler is called with the values of a request for one partition, instead of a message of five structures.
    """
    call, correlation_id = call_of(frame, session)
    if call.plain is not None:
        served = _serve_plain(frame, call)
        if served is not None:
            return make_answer((served[1], call, correlation_id, None))
    return _take(frame, call, correlation_id)


def _serve_plain(frame: memoryview, call: Call) -> tuple[tuple[Any, ...], Any] | None:
    """Serve a request in the plain shape.

    Returns:
        The request's values, and what its handler has returned or a response with the error that ended it. None if
        nothing was done, because the request is not in the plain shape or its handler wants the whole message.
    """
    try:
        values = call.decode_plain(frame, call.body, len(frame))
    except UNDECODABLE:
        return None  # The full decoder reports the error.
    if values is None:
        return None
    try:
        response = call.plain.handle(values, call)
    except Exception as error:  # noqa: BLE001 - the client gets the error
        response = _failed(_decoded(frame, call), call, error)
    return None if response is None else (values, response)


def accept_recorded(recording: Any, faults: Any, channel: Channel, frame: memoryview, session: Session) -> Outcome:
    """`accept` for a broker that records requests, and may have faults.

    Args:
        recording: the `minibroker.server.inspection.recording.Recording`.
        faults: the `minibroker.server.faults.registry.FaultRegistry`, or None if no faults are installed.
        channel: the connection.
        frame: the request.
        session: the connection's.
    """
    began = recording.now_ms(), recording.monotonic_ms()
    try:
        call, correlation_id = call_of(frame, session)
        if call.plain is not None and faults is None and not session.services.checks_messages:
            served = _serve_plain(frame, call)
            if served is not None:
                values, response = served
                entry = recording.begin_plain(channel, frame, call, values, began)
                return make_answer((response, call, correlation_id, entry))
        waits = call.may_wait and _has_to_wait(call)
        if waits:
            frame = session.keep(frame)
        request = _decoded(frame, call, is_kept=waits)
    except Exception as error:
        recording.begin(channel, frame, session, began).fail(error, frame)
        raise
    entry = recording.begin(channel, frame, session, began, call, request)
    try:
        if waits or faults is not None:

            def begin() -> Any:
                if faults is not None:
                    return faults.serve(channel, request, call, entry)
                return _served(request, call, correlation_id, entry)

            outcome = in_slices(_after_loading(request, call, begin) if waits else begin(), session.services)
        else:
            outcome = outcome_from(serve(request, call), call, correlation_id, entry)
    except Exception as error:
        entry.fail(error)
        raise
    if outcome is None or isinstance(outcome, Waiting):
        entry.settle(outcome)
    return outcome


def call_of(frame: memoryview, session: Session) -> tuple[Call, int]:
    """Return the call of a request, which the connection may have made before, and the correlation id.

    Raises:
        DecodeError: The header cannot be read.
        UnservedRequestError: The broker does not serve this API or version.
    """
    try:
        key, correlation_id = _START.unpack_from(frame)
    except StructError:
        read_request_header(frame)  # raises with a message
        raise
    call = session.calls.get(key)
    if call is None or frame[_HEADER_AT : call.body] != call.header:
        call = _bind(frame, session)
        if call.decode is not None and len(call.header) <= _MAX_HEADER_BYTES:
            session.calls[key] = call
    return call, correlation_id


def _bind(frame: memoryview, session: Session) -> Call:
    """Make the call of a request's API, version and client id."""
    services = session.services
    header = read_request_header(frame)
    version = header.api_version
    served = endpoint(header.api_key)
    route = served.route
    first, last = (
        (route.first, route.last) if services.served is None else services.served.get(header.api_key, _UNSERVED)
    )
    is_served = first <= version <= last
    # Kafka closes the connection, too: no error response could be written in a version that it does not know. But a
    # client with an unknown version of ApiVersions gets the table in the form that every client can read (KIP-511).
    if not is_served and (route.key is not _API_VERSIONS or not first <= last):
        raise UnservedRequestError(f"{route.key.name} v{version} is not served")
    body = header.body
    if is_served and version in served.flexible:
        body = skip_tagged_fields(frame, body)
    call = Call(services.core, services, version if is_served else 0, header.client_id, session)
    call.endpoint = served
    call.body, call.header = body, bytes(frame[_HEADER_AT:body])
    call.decode = decoder_for(served.request, version) if is_served else None
    is_flexible = served.has_flexible_response_header(call.api_version)
    call.encode = response_encoder_for(served.response, call.api_version, flexible_header=is_flexible)
    call.plain = served.plain if is_served else None
    if call.plain is not None:
        call.decode_plain, call.encode_plain = plain_codec_for(
            served.request, served.response, version, flexible_header=is_flexible
        )
    call.may_wait = served.is_about_groups
    return call


def _decoded(frame: memoryview, call: Call, *, is_kept: bool = False) -> Any:
    """Decode a request; None for ApiVersions in a version that is not served.

    Args:
        frame: the request.
        call: the request's.
        is_kept: the frame is in memory that outlives the wake-up.
    """
    decode = call.decode
    if decode is None:
        return None
    if len(frame) > _MAX_BYTES_UNKEPT and not is_kept and call.endpoint.route.key is not _PRODUCE:
        frame = call.session.keep(frame)
    try:  # Kafka passes over bytes after the end, too
        return decode(frame, call.body, len(frame), call.services.max_elements)[0]
    except UNDECODABLE as error:
        raise decode_error(call.endpoint.request, call.api_version, error, len(frame) - call.body) from None


def _has_to_wait(call: Call) -> bool:
    """Return whether a request waits for groups to be loaded."""
    return call.endpoint.is_about_groups and call.services.is_loading_groups


def _served(request: Any, call: Call, correlation_id: int, entry: Any = None) -> Any:
    """Serve a request; return its outcome, or the work that has it in the end."""
    return then(serve(request, call), lambda response: outcome_of(response, call, correlation_id, entry))


def _after_loading(request: Any, call: Call, begin: Callable[[], Any]) -> ForEach[Outcome]:
    """Wait for the groups that a request names, then begin; handlers refuse groups that cannot be loaded."""
    store, node = call.services.groups.store, call.session.node
    groups = targets.groups_of(call.endpoint.names, request)
    return ForEach(groups, lambda group: store.awaited(group, node), lambda _: begin())


def outcome_of(response: Any, call: Call, correlation_id: int, entry: Any = None) -> Outcome:
    """Turn the return value of a handler, which is not steps, into an outcome."""
    if response is None:
        return None
    if isinstance(response, DelayedResponse):
        return Waiting(response, Answer(None, call, correlation_id, entry))
    return make_answer((response, call, correlation_id, entry))


def outcome_from(response: Any, call: Call, correlation_id: int, entry: Any = None) -> Outcome:
    """Return the outcome of a request, from what `serve` has returned; if that is steps, they begin here."""
    if type(response) is call.endpoint.response:
        return make_answer((response, call, correlation_id, entry))
    if isinstance(response, GeneratorType):
        steps = cast("Steps[Any]", response)
        try:  # most requests are small: their steps end before it is worth while to look at the clock
            next(steps)
            next(steps)
        except StopIteration as end:
            response = end.value
        else:
            rest = then(steps, lambda result: outcome_of(result, call, correlation_id, entry))
            return in_slices(rest, call.services)
    return outcome_of(response, call, correlation_id, entry)


def serve(request: Any, call: Call) -> Any:
    """Commit, authorize, handle: return what the handler returns, or a response with the error that ended it.

    What a handler has to do in steps is returned as `Steps`.
    All but Produce see what was appended before them.
    """
    endpoint = call.endpoint
    # Produce stages, and reads nothing of the log: all its appends of a wake-up are written together.
    if endpoint.route.key is not _PRODUCE:
        call.core.writes.commit()
    field = endpoint.deadline
    if field is not None and request is not None and request.timeout_ms <= 0 and getattr(request, field) != []:
        return _refused(request, call, ErrorCode.REQUEST_TIMED_OUT)
    try:
        # Rights come last: an error fault has answered by now, whether the client may ask or not.
        handle = endpoint.handle if call.services.authorizer is None else _guard()
        response = handle(request, call)
    except Exception as error:  # noqa: BLE001 - the client gets the error
        return _failed(request, call, error)
    if is_work(response):
        return rescued(lambda: response, Exception, lambda error: _failed(request, call, error))
    return response


def _failed(request: Any, call: Call, error: Exception) -> Any:
    """Return a response with the error that a handler has let through (`KafkaApis.handle`).

    Raises:
        Exception: The error itself, which closes the connection, where no response can carry an error.
    """
    key = call.endpoint.route.key
    has_no_response = key is _PRODUCE and request.acks == 0
    if request is None or has_no_response or isinstance(error, DecodeError | EncodeError | UnservedRequestError):
        raise error
    is_expected = isinstance(error, MAPPED)
    _logger.error("%s failed: %s", key.name, error, exc_info=None if is_expected else error)
    return _refused(request, call, error_code_of(error))


def _refused(request: Any, call: Call, code: ErrorCode) -> Any:
    return refusals.error_answer(call.endpoint, request, call.api_version, code)


@cache
def _guard() -> Callable[[Any, Call], Any]:
    """Return the guard's `serve`, imported with the first request of a broker that has an authorizer."""
    return guard.serve


def in_slices(work: Any, services: Services) -> Outcome:
    """Return the outcome of work, or a `Waiting` for it when there is more to do than fits into a slice."""
    begun = services.core.slices.begin(work)
    if isinstance(begun, Work):
        return Waiting(SlicedRequest(cast("Work[Outcome]", begun), services), NO_ANSWER)
    outcome: Outcome = begun
    return outcome


def comes_apart(frame: memoryview) -> bool:
    """Whether the answers before the request in `frame` have to leave first.

    The request may remove the files that a fetch before it has found. Or its answer takes longer to encode than to
    find, and is encoded within the time that requests of one connection may take.
    """
    return len(frame) > 1 and frame[1] in _APART  # all API keys are less than 256


def hasten(waiting: Waiting, reader: FrameReader, session: Session) -> None:
    """Have a delayed request answered early if it can be, and another complete request stands behind it."""
    frame = reader.peek_frame() if session.services.works_around_clients else None
    if frame is not None and _hastens(frame, session):
        waiting.delayed.hasten()


def _hastens(frame: memoryview, session: Session) -> bool:
    """Return whether the request in `frame` should not wait behind a fetch.

    A client that always sends its next fetch ahead would never wait; so a fetch counts only if it ends its session.
    """
    try:
        call, _ = call_of(frame, session)
        key = call.endpoint.route.key
        if call.decode is None or key not in _FETCHES:
            return True
        request = _decoded(frame, call)
    except (DecodeError, UnservedRequestError):
        return False
    if key is not _FETCH:
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


def encode_answers(answers: Sequence[Answer]) -> tuple[bytearray, Splices]:
    """Return the frames of `answers`, in order, with the holes that record data on disk will fill.

    Raises:
        UnencodableAnswerError: An answer has no form in the protocol.
    """
    out = bytearray()
    splices: Splices = []
    for response, call, correlation_id, entry in answers:
        start, before = len(out), len(splices)
        try:
            if type(response) is call.endpoint.response:
                call.encode(response, correlation_id, out, splices)
            else:
                values = call.plain.values(response)
                encode = call.encode_plain if type(values) is tuple else call.encode
                encode(values, correlation_id, out, splices)
        except UNENCODABLE as error:
            del out[start:], splices[before:]
            message = f"{type(response).__name__} v{call.api_version}: {error}"
            failure = UnencodableAnswerError(message, out, splices)
            for answer in answers:  # The connection closes over those that are not encoded yet.
                if answer.entry is not None:
                    answer.entry.fail(failure)
            raise failure from error
        if entry is not None:
            holes = [(position - start, splice) for position, splice in splices[before:]] if start else splices[before:]
            entry.finish(response, out[start:], holes)
    return out, splices
