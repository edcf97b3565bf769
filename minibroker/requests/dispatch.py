"""Dispatch of a request from bytes to its answer: decode, then commit, authorize, handle (`serve`).

No sockets here: a test can drive it with bytes alone. Interceptors stand before it (`minibroker.api.interceptors`).
"""

from collections.abc import Callable
from types import GeneratorType
from typing import Any, Final, cast

from minibroker.api.delayed import DelayedResponse, UnservedRequestError
from minibroker.api.outcomes import NO_ANSWER, Answer, Outcome, Waiting, outcome_of
from minibroker.requests.call import Call
from minibroker.requests.endpoints import Endpoint, endpoint
from minibroker.requests.produce_memo import ProduceMemo, has_many_batches
from minibroker.requests.session import Session
from minibroker.services import Services
from minibroker.support.slices import Steps, Work, result_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import Splices, decode, decode_in_slices, encode, encode_in_slices
from minibroker_protocol.errors import EncodeError, TooManyElementsError
from minibroker_protocol.frame import (
    RequestHeader,
    begin_response,
    correlation_id_of,
    end_response,
    read_request_header,
)
from minibroker_protocol.primitives import skip_tagged_fields


class SlicedRequest(DelayedResponse):
    """A request whose work goes on in slices.

    Attributes:
        finish: called once, with a function that returns the outcome or raises the error that has ended the request.
        amend: changes the outcome before it is encoded; its arguments are the outcome, and for how many seconds the
            work has run.
    """

    finish: Callable[[Callable[[], Outcome]], None]

    def __init__(self, work: Work[Outcome], services: Services) -> None:
        self._work = work
        self._services = services
        self._is_gone = False
        self.amend: Callable[[Outcome, float], Outcome] | None = None
        work.then(self._done, self._failed)

    def cancel(self) -> None:
        """Let the work go on to its end, since half of a change would be worse, but tell nobody."""
        self._is_gone = True

    def _done(self, outcome: Outcome) -> None:
        if self._is_gone:
            if isinstance(outcome, Waiting):
                outcome.delayed.cancel()
            return
        if self.amend is not None:
            outcome = self.amend(outcome, self._work.spent_s)
        if not isinstance(outcome, Answer):
            self._tell(outcome)
            return
        self._services.core.writes.commit()
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

    def _failed(self, error: Exception) -> None:
        def fail() -> Outcome:
            raise error

        if not self._is_gone:
            self.finish(fail)


# An enum's members are looked up each time that they are named.
_PRODUCE: Final = ApiKey.PRODUCE
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_IN_ORDER: Final = frozenset(
    int(key)
    for key in (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    )
)
"""Changes of the cluster's metadata, which a Kafka's controller makes one request after the other."""
_FEW_ELEMENTS: Final = 1000
"""A request with more elements in its arrays is decoded in slices."""
_DELETING: Final = frozenset(int(key).to_bytes(2, "big") for key in (ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS))
_UNSERVED: Final = (1, 0)


def accept(frame: memoryview, session: Session) -> Answer | Waiting | None:
    """Serve one request frame of a connection.

    Raises DecodeError for bytes that are no such request and UnservedRequestError for one that is not in the table;
    in both cases the connection should close.
    """
    memo, services = session.memo, session.services
    if memo is not None and memo.recall(frame):
        return _accept_repeated(frame, memo)
    try:
        served, header, version, request = read_request(frame, services)
    except TooManyElementsError:
        return _accept_large(frame, session)
    if header.api_key in _IN_ORDER and services.core.slices.has_work_in_order:
        return _accept_large(frame, session)
    call = Call(services.core, services, version, header.client_id, session)
    if served.route.key is _PRODUCE:
        if has_many_batches(request):  # which lie in memory that is used again
            return _accept_large(frame, session)
        if memo is not None:
            memo.note(frame, request, call, version)
    response = serve(served, request, call)
    if memo is not None:
        memo.forget_records()
    if isinstance(response, GeneratorType):
        steps = cast("Steps[Any]", response)
        try:  # most requests are small: their steps end before it is worth while to look at the clock
            next(steps)
            next(steps)
        except StopIteration as end:
            response = end.value
        else:
            return in_slices(_outcome_in_slices(steps, served, header, version), services, header.api_key)
    return outcome_of(response, version, header.correlation_id, flexible_header=version in served.flexible_answers)


def serve(endpoint: Endpoint, request: Any, call: Call) -> Any:
    """Commit, authorize, handle: what the handler returns, as far as the client may ask for it.

    All but Produce see what was appended before them.
    """
    if endpoint.route.key is not _PRODUCE:
        call.core.writes.commit()
    if call.services.authorizer is None:
        return endpoint.handle(request, call)
    from minibroker.requests import guard  # noqa: PLC0415 - most brokers let everybody do everything

    return guard.serve(endpoint, request, call)


def in_slices(steps: Steps[Outcome], services: Services, api_key: int) -> Outcome:
    """The outcome of `steps`, or a `Waiting` for it when there is more to do than fits into a slice."""
    outcome = services.core.slices.begin(steps, in_order=api_key in _IN_ORDER)
    if isinstance(outcome, Work):
        return Waiting(SlicedRequest(outcome, services), NO_ANSWER)
    return outcome


def _accept_large(frame: memoryview, session: Session) -> Outcome:
    """Serve a request from its first byte in slices."""
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    return in_slices(_serve_large(session.keep(frame), session), session.services, api_key)


def _serve_large(frame: memoryview, session: Session) -> Steps[Outcome]:
    services = session.services
    served, header, version, request = yield from read_large_request(frame, services)
    response = serve(served, request, Call(services.core, services, version, header.client_id, session))
    return (yield from _outcome_in_slices(response, served, header, version))


def _outcome_in_slices(response: Any, served: Endpoint, header: RequestHeader, version: int) -> Steps[Outcome]:
    flexible_header = served.has_flexible_response_header(version)
    result = yield from result_of(response)
    return outcome_of(result, version, header.correlation_id, flexible_header=flexible_header)


def _encoded(answer: Answer) -> Steps[Answer]:
    """The answer with its bytes."""
    out = bytearray()
    splices: Splices = []
    start = begin_response(out, answer.correlation_id, flexible_header=answer.flexible_header)
    yield from encode_in_slices(answer.response, answer.version, out, splices)
    end_response(out, start, sum(splice.size for _, splice in splices))
    return answer._replace(encoded=(out, splices))


def read_request(frame: memoryview, services: Services) -> tuple[Endpoint, RequestHeader, int, Any]:
    """(endpoint, header, version of the answer, request) of a frame; errors as those of `accept`.

    The request is None, and the version 0, for ApiVersions in a version that is not served. TooManyElementsError for
    one that should be read by `read_large_request`.
    """
    served, header, version, body = _read_header(frame, services)
    if body is None:
        return served, header, version, None
    # Kafka passes over bytes after the end, too.
    request, _ = decode(served.request, frame, version, body, _FEW_ELEMENTS)
    return served, header, version, request


def read_large_request(frame: memoryview, services: Services) -> Steps[tuple[Endpoint, RequestHeader, int, Any]]:
    """`read_request` for one with many elements, in slices; TooManyElementsError for one that has too many of them."""
    served, header, version, body = _read_header(frame, services)
    if body is None:
        return served, header, version, None
    most = services.core.config.integer("minibroker.request.elements.max")
    request, _ = yield from decode_in_slices(served.request, frame, version, body, most)
    return served, header, version, request


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
        if route.key is not _API_VERSIONS or not first <= last:
            raise UnservedRequestError(f"{route.key.name} v{version} is not served")
        # A client from the future is told the table in the form that every client can read (KIP-511).
        return served, header, 0, None
    body = header.body
    if version in served.flexible:
        has_none = body < len(frame) and not frame[body]  # as nearly all headers
        body = body + 1 if has_none else skip_tagged_fields(frame, body)
    return served, header, version, body


def _accept_repeated(frame: memoryview, memo: ProduceMemo[Call]) -> Answer | Waiting | None:
    call = memo.call
    served = endpoint(_PRODUCE)
    response = serve(served, memo.request, call)
    memo.forget_records()
    if isinstance(response, GeneratorType):
        steps = _outcome_in_slices(cast("Steps[Any]", response), served, read_request_header(frame), call.api_version)
        return in_slices(steps, call.services, int(_PRODUCE))
    return outcome_of(response, call.api_version, correlation_id_of(frame), flexible_header=memo.is_flexible)


def may_delete_files(frame: memoryview) -> bool:
    """Whether the request in `frame` may remove what a fetch before it has found."""
    return bytes(frame[:2]) in _DELETING


class UnencodableAnswerError(Exception):
    """An answer has no form in the protocol, such as text that is too long; the message names its type and version.

    Attributes:
        data, splices: the frames of the answers before it, which can leave.
    """

    def __init__(self, message: str, data: bytearray, splices: Splices) -> None:
        super().__init__(message)
        self.data = data
        self.splices = splices


def encode_answers(answers: list[Answer]) -> tuple[bytearray, Splices]:
    """The frames of `answers`, in order, with the holes that record data on disk will fill. UnencodableAnswerError."""
    out = bytearray()
    splices: Splices = []
    for answer in answers:
        if answer.encoded is not None:
            data, holes = answer.encoded
            splices += [(len(out) + position, splice) for position, splice in holes] if out else holes
            out += data
            if answer.entry is not None:
                _note_sent(answer, len(data), holes)
            continue
        start = begin_response(out, answer.correlation_id, flexible_header=answer.flexible_header)
        before = len(splices)
        try:
            encode(answer.response, answer.version, out, splices)
        except EncodeError as error:
            del out[start:], splices[before:]
            raise UnencodableAnswerError(str(error), out, splices) from error
        end_response(out, start, sum(splice.size for _, splice in splices[before:]) if len(splices) > before else 0)
        if answer.entry is not None:
            _note_sent(answer, len(out) - start, splices[before:])
    return out, splices


def _note_sent(answer: Answer, size: int, splices: Splices) -> None:
    """Tell the journal how many bytes leave."""
    answer.entry.finish(answer.response, size + sum(splice.size for _, splice in splices))
