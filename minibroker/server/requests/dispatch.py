"""The dispatch of a request: decode, authorize, handle (`KafkaApis.handle`).

`accept` takes a frame: it decodes the request, calls `handle`, and makes an `Outcome` of the response (`outcome_of`).

Nothing here uses sockets, so tests can call it with bytes. Interceptors run before it (`compose`).
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from struct import error as StructError  # noqa: N812 - the alias names a class
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.cluster.fetch_sessions import FINAL_EPOCH, NO_SESSION
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.outcomes import (
    Answer,
    Channel,
    DelayedResponse,
    FrameHandler,
    Outcome,
    Waiting,
    make_answer,
)
from minibroker.cluster.routing.routes import RefusedRequestError, UnservedRequestError
from minibroker.cluster.routing.slices import ForEach, Work, catch_errors, is_work, then
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
    from minibroker.coordinators.share_partitions import sessions as share_sessions
    from minibroker.server.requests import guard, meter, refusals, targets

if TYPE_CHECKING:
    from minibroker.server.requests.authentication import Authentication

_logger = logging.getLogger(__name__)


class SlicedRequest(DelayedResponse):
    """A request whose work runs in slices.

    Attributes:
        finish: Called once with the outcome, unless the request ends with an error.
        fail: Called once with the error that ended the request.
        amend: Changes the outcome before it is encoded. Its arguments are the outcome and the time that the work
            took, in seconds.
        recorded: The request in the recording, or None.
    """

    finish: Callable[[Outcome], None]
    fail: Callable[[Exception], None]

    def __init__(self, work: Work[Outcome], services: Services) -> None:
        self._work = work
        self._services = services
        self._is_gone = False
        self.amend: Callable[[Outcome, float], Outcome] | None = None
        self.recorded: Any = None
        work.then(self._on_done, self._on_error)

    def cancel(self) -> None:
        """Drop the response, but let the work finish, because a half-finished change would be worse."""
        self._is_gone = True

    def waits_for(self) -> str:
        """Return what the request waits for, see `DelayedResponse`."""
        return "its next slice: the request is large"

    def _on_done(self, outcome: Outcome) -> None:
        if self._is_gone:
            # The client has disconnected, so a fetch must not begin to wait.
            if isinstance(outcome, Waiting):
                outcome.delayed.cancel()
            return
        if self.amend is not None:
            outcome = self.amend(outcome, self._work.spent_s)
        if self.recorded is not None:
            self.recorded.settle(outcome)
        # The last slice may have staged appends, which must be written before the response is sent.
        self._services.core.writes.commit()
        self.finish(outcome)

    def _on_error(self, error: Exception) -> None:
        if self.recorded is not None:
            self.recorded.fail(error)
        if not self._is_gone:
            self.fail(error)


# Module constants, because looking up an enum member on every request is slow.
_PRODUCE: Final = ApiKey.PRODUCE
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_START: Final = Struct(">Ii")
"""API key and version as one number, and the correlation id."""
_HEADER_AT: Final = _START.size
_MAX_BYTES_UNKEPT: Final = 1 << 14
"""Larger requests are copied, since their handlers may need them for several slices. Produce copies its records."""
_MAX_HEADER_BYTES: Final = 256
"""Calls with a longer header are not cached, since clients may send arbitrary tagged fields."""
_SENT_AFTER_EARLIER: Final = frozenset(map(int, (ApiKey.METADATA, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS)))
_FETCH: Final = ApiKey.FETCH
_FETCHES: Final = frozenset({_FETCH, ApiKey.SHARE_FETCH})
_UNSERVED: Final = (1, 0)


def accept(frame: memoryview, session: Session) -> Outcome:
    """Serve one request frame of a connection. The caller should close the connection after an error.

    Raises:
        DecodeError: The frame is not a valid request.
        UnservedRequestError: The broker does not serve this API or version.
    """
    return _accept_call(frame, *call_of(frame, session))


def _accept_call(frame: memoryview, call: Call, correlation_id: int) -> Outcome:
    if call.may_wait and call.services.is_loading_groups:
        request = _decode(call.session.keep(frame), call, is_kept=True)
        work = _await_groups(request, call, lambda: serve(request, call, correlation_id))
        return _in_slices(work, call, correlation_id)
    return outcome_of(handle(_decode(frame, call), call), call, correlation_id)


def accept_plain(frame: memoryview, session: Session) -> Outcome:
    """Serve one request frame like accept(), with a fast path for requests in the plain shape.

    It can be used if only handlers inspect messages. The plain handler gets the values of a request for one
    partition, instead of a message of five structures.
    """
    call, correlation_id = call_of(frame, session)
    if call.plain is not None:
        handled = _handle_plain(frame, call)
        if handled is not None:
            return make_answer((handled[1], call, correlation_id, None))
    return _accept_call(frame, call, correlation_id)


def _handle_plain(frame: memoryview, call: Call) -> tuple[tuple[Any, ...], Any] | None:
    """Handle a request in the plain shape.

    Returns:
        The values of the request, and the result of its handler or an error response. None if nothing was done, because
        the request is not in the plain shape or its handler needs the whole message.
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
        response = _error_response(_decode(frame, call), call, error)
    return None if response is None else (values, response)


def accept_recorded(recording: Any, faults: Any, channel: Channel, frame: memoryview, session: Session) -> Outcome:
    """Serve one request frame like `accept`, for a broker that records requests and may have faults.

    Args:
        recording: The `minibroker.server.inspection.recording.Recording`.
        faults: The `minibroker.server.faults.registry.FaultRegistry`, or None without faults.
        channel: The connection.
        frame: The request.
        session: The session of the connection.
    """
    began = recording.read_both_ms()
    try:
        call, correlation_id = call_of(frame, session)
        if call.plain is not None and faults is None and not session.services.checks_messages:
            handled = _handle_plain(frame, call)
            if handled is not None:
                values, response = handled
                entry = recording.begin_plain(channel, frame, call, values, began)
                return make_answer((response, call, correlation_id, entry))
        waits = call.may_wait and call.services.is_loading_groups
        if waits:
            frame = session.keep(frame)
        request = _decode(frame, call, is_kept=waits)
    except Exception as error:
        recording.begin(channel, frame, session, began).fail(error, frame)
        raise
    entry = recording.begin(channel, frame, session, began, call, request)
    try:
        if waits or faults is not None:

            def begin() -> Any:
                if faults is not None:
                    return faults.serve(channel, request, call, entry)
                return serve(request, call, correlation_id, entry)

            outcome = _in_slices(_await_groups(request, call, begin) if waits else begin(), call, correlation_id)
        else:
            outcome = outcome_of(handle(request, call), call, correlation_id, entry)
    except Exception as error:
        entry.fail(error)
        raise
    if outcome is None or isinstance(outcome, Waiting):
        entry.settle(outcome)
    return outcome


def call_of(frame: memoryview, session: Session) -> tuple[Call, int]:
    """Return the call of a request and its correlation id. The connection caches the calls.

    Raises:
        DecodeError: The header cannot be decoded.
        UnservedRequestError: The broker does not serve this API or version.
    """
    try:
        key, correlation_id = _START.unpack_from(frame)
    except StructError:
        read_request_header(frame)  # This call raises a DecodeError that describes the problem.
        raise
    call = session.calls.get(key)
    if call is None or frame[_HEADER_AT : call.body] != call.header:
        call = _create_call(frame, session)
        if call.decode is not None and len(call.header) <= _MAX_HEADER_BYTES:
            session.calls[key] = call
    return call, correlation_id


def _create_call(frame: memoryview, session: Session) -> Call:
    """Create the call for a request's API, version and client id."""
    services = session.services
    header = read_request_header(frame)
    version = header.api_version
    served = endpoint(header.api_key)
    route = served.route
    if services.is_detached and route.absent:
        served = served._replace(handle=_refuse_detached, plain=None)
    first, last = (
        (route.first, route.last) if services.served is None else services.served.get(header.api_key, _UNSERVED)
    )
    is_served = first <= version <= last
    # Like Kafka, close the connection, since an error response needs a known version. Only ApiVersions in an unknown
    # version is answered, in the form that every client can read (KIP-511).
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


def _decode(frame: memoryview, call: Call, *, is_kept: bool = False) -> Any:
    """Decode a request, or return None for ApiVersions in an unsupported version.

    Args:
        frame: The request.
        call: The context of the request.
        is_kept: Whether the frame is in memory that outlives the wake-up.
    """
    decode = call.decode
    if decode is None:
        return None
    if len(frame) > _MAX_BYTES_UNKEPT and not is_kept and call.endpoint.route.key is not _PRODUCE:
        frame = call.session.keep(frame)
    try:  # Like Kafka, ignore extra bytes at the end.
        return decode(frame, call.body, len(frame), call.services.max_elements)[0]
    except UNDECODABLE as error:
        raise decode_error(call.endpoint.request, call.api_version, error, len(frame) - call.body) from None


def serve(request: Any, call: Call, correlation_id: int, entry: Any = None) -> Any:
    """Handle a request, and return its outcome, or work that produces it."""
    return then(handle(request, call), lambda response: outcome_of(response, call, correlation_id, entry))


def _await_groups(request: Any, call: Call, begin: Callable[[], Any]) -> ForEach[Outcome]:
    """Wait until the groups in a request are loaded, then call `begin`. Handlers reject groups that failed to load."""
    store, node = call.services.groups.store, call.session.node
    groups = targets.groups_of(call.endpoint.names, request)
    return ForEach(groups, lambda group: store.wait_until_loaded(group, node), lambda _: begin())


def outcome_of(response: Any, call: Call, correlation_id: int, entry: Any = None) -> Outcome:
    """Convert the result of handle() to an outcome. If it is unfinished work, begin to run it."""
    if type(response) is not call.endpoint.response:  # Nearly every result of a handler is this response.
        if response is None:
            return None
        if isinstance(response, DelayedResponse):
            return Waiting(response, Answer(None, call, correlation_id, entry))
        if is_work(response):
            work = then(response, lambda result: outcome_of(result, call, correlation_id, entry))
            return _in_slices(work, call, correlation_id)
    return make_answer((response, call, correlation_id, entry))


def handle(request: Any, call: Call) -> Any:
    """Commit, authorize and handle a request. Return the handler's result, or an error response if it raised an error.

    Unfinished work is returned as `Steps`. All requests except Produce read the records appended before them.
    """
    endpoint = call.endpoint
    # Produce does not read the log, so all its appends of a wake-up can be written together.
    if endpoint.route.key is not _PRODUCE:
        call.core.writes.commit()
    field = endpoint.deadline
    if field is not None and request is not None and request.timeout_ms <= 0 and getattr(request, field) != []:
        return _refuse(request, call, ErrorCode.REQUEST_TIMED_OUT)
    try:
        # Authorization is checked last. An injected error is returned earlier, regardless of the client's rights.
        handler = endpoint.handle if call.services.authorizer is None else guard.handle
        response = handler(request, call)
    except Exception as error:  # noqa: BLE001 - the client gets the error
        return _error_response(request, call, error)
    if is_work(response):
        return catch_errors(lambda: response, Exception, lambda error: _error_response(request, call, error))
    return response


def _error_response(request: Any, call: Call, error: Exception) -> Any:
    """Return an error response for an exception that a handler raised (`KafkaApis.handle`).

    Raises:
        Exception: The handler's exception, if no response can carry an error. The connection is then closed.
    """
    key = call.endpoint.route.key
    has_no_response = key is _PRODUCE and request.acks == 0
    if request is None or has_no_response or isinstance(error, DecodeError | EncodeError | UnservedRequestError):
        raise error
    if isinstance(error, RefusedRequestError):
        return refusals.error_answer(call.endpoint, request, call.api_version, error.code, error.message)
    is_expected = isinstance(error, MAPPED)
    _logger.error("%s failed: %s", key.name, error, exc_info=None if is_expected else error)
    return _refuse(request, call, error_code_of(error))


def _refuse_detached(request: Any, call: Call) -> Any:
    """Refuse a request because its leader, coordinator or controller is in another process, which cannot be reached.

    Raises:
        UnservedRequestError: A Produce request has acks=0. As in Kafka, its connection closes.
    """
    code = call.endpoint.route.absent
    refusals.check_acks(call.endpoint, request, code.name)
    # A Fetch response has the error in each partition, so that consumers look up the leaders again.
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return refusals.partial_error_answer(call.endpoint, request, call.api_version, code)
    return _refuse(request, call, code)


def _refuse(request: Any, call: Call, code: ErrorCode) -> Any:
    return refusals.error_answer(call.endpoint, request, call.api_version, code)


def _in_slices(work: Any, call: Call, correlation_id: int) -> Outcome:
    """Run work in time slices. Return its outcome, or a `Waiting` if it needs more than one slice."""
    result = call.core.slices.begin(work)
    if isinstance(result, Work):
        sliced = SlicedRequest(cast("Work[Outcome]", result), call.services)
        return Waiting(sliced, Answer(None, call, correlation_id))
    outcome: Outcome = result
    return outcome


def must_send_earlier_first(frame: memoryview) -> bool:
    """Return whether earlier responses must be sent before the request in `frame` is served.

    There are two kinds of such requests. Some delete files that an earlier Fetch response has yet to read. Others have
    responses that take longer to encode than to build, and the encoding counts towards the connection's time limit.
    """
    # The second byte of the key suffices, because all API keys are less than 256.
    return len(frame) > 1 and frame[1] in _SENT_AFTER_EARLIER


def hasten(waiting: Waiting, reader: FrameReader, session: Session) -> None:
    """Answer a delayed request early, if it permits this and a request that should not wait follows it."""
    frame = reader.peek_frame() if session.services.works_around_clients else None
    if frame is not None and _should_hasten(frame, session):
        waiting.delayed.hasten()


def _should_hasten(frame: memoryview, session: Session) -> bool:
    """Return whether a fetch should be answered early because of the request in `frame`, which follows it.

    If every request counted, fetches of a client that always sends its next fetch in advance would never wait. A
    fetch therefore counts only if it closes its session.
    """
    try:
        call, _ = call_of(frame, session)
        key = call.endpoint.route.key
        if call.decode is None or key not in _FETCHES:
            return True
        request = _decode(frame, call)
    except (DecodeError, UnservedRequestError):
        return False
    if key is not _FETCH:
        return bool(request.share_session_epoch == share_sessions.FINAL_EPOCH)
    return bool(request.session_epoch == FINAL_EPOCH and request.session_id != NO_SESSION)


class UnencodableAnswerError(Exception):
    """The error for a response that cannot be encoded, such as one with a text that is too long.

    The message names the type and version of the response.

    Attributes:
        data: The frames of the preceding responses, which can be sent.
        splices: The splices of these frames.
    """

    def __init__(self, message: str, data: bytearray, splices: Splices) -> None:
        super().__init__(message)
        self.data = data
        self.splices = splices


def encode_answers(answers: Sequence[Answer]) -> tuple[bytearray, Splices]:
    """Encode `answers` in order. Return their frames, and the positions where record data from files is inserted.

    Raises:
        UnencodableAnswerError: A response cannot be encoded.
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
            for answer in answers:  # None of the remaining responses is encoded, because the connection closes.
                if answer.entry is not None:
                    answer.entry.fail(failure)
            raise failure from error
        if entry is not None:
            holes = [(position - start, splice) for position, splice in splices[before:]] if start else splices[before:]
            entry.finish(response, out[start:], holes)
    return out, splices


def compose(services: Services, authentication: "Authentication | None", channel: Channel) -> FrameHandler:
    """Return `accept` wrapped in the interceptors that are currently needed: recording, authentication and meter."""
    recording = services.recording
    take: FrameHandler
    if recording is not None:
        take = partial(accept_recorded, recording, services.faults or None, channel)
    else:  # Authorization and quotas inspect decoded messages, which the fast path of `accept_plain` skips.
        take = accept if services.checks_messages else accept_plain
    if services.quotas is not None:
        take = partial(meter.accept, services.quotas, take)
    if authentication is None:
        return take
    take = partial(authentication.accept, take)
    return take if recording is None else partial(recording.accept_login, take, channel)
