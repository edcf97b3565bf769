"""Messages as the journal keeps them: bytes of its own, decoded when they are read.

To decode and to copy a message costs more than to serve the request, and few are ever read. Messages with secrets are
copied at once, without these (`message_json.detached`), and so are long requests, whose bytes may hold more than the
message. Messages with records are kept with a summary of each field of records; in place of one that takes long the
range of the file is kept, whose heads are read on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.inspection.message_json import (
    SECRETS,
    SETTING,
    RecordsSummary,
    detached,
    summary,
    summary_or_range,
)
from minibroker.requests.targets import implied_targets, targets_of
from minibroker_protocol import primitives as p
from minibroker_protocol.codec import decode, message_of
from minibroker_protocol.copying import shallow_copy
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.primitives import ZERO_UUID, skip_tagged_fields
from minibroker_protocol.schema import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from minibroker.requests.call import Call
    from minibroker.requests.declarations import Names, Target
    from minibroker.requests.endpoints import Endpoint
    from minibroker_protocol.schema import Field
    from minibroker_storage.files import LogSlice

MOST_BYTES: Final = 4096
"""A longer request is decoded at once: a client may add bytes that belong to no field."""
_RESPONSE_HEADER_SIZE: Final = 8
"""Length and correlation id."""
_MOST_FILLED: Final = 1 << 17
"""Bytes of a response that is filled up to be decoded; a larger one is kept decoded."""
_MARK: Final = b"\xff"
"""Fills the places of records; no offset begins with that byte."""
_MAY_KEEP: Final[dict[type[Any], bool]] = {}
_HAS_IDS: Final[dict[tuple[type[Any], int], bool]] = {}
_RECORDS_AT: Final[dict[type[Any], tuple[str, ...] | None]] = {}


class _Undetached(NamedTuple):
    """A message with summaries of records, or ranges of files, to be copied when it is read."""

    message: Any


def request_of(endpoint: Endpoint, frame: memoryview, request: Any) -> Any:
    """Return the form in which the journal keeps a request, which was decoded from `frame`.

    Records of a long request are still in it: see `without_records`.
    """
    if request is None:
        return None
    cls = endpoint.request
    if _path_to_records(cls) is None:
        return bytes(frame) if len(frame) <= MOST_BYTES and may_keep_bytes(cls) else detached(request)
    return bytes(frame) if len(frame) <= MOST_BYTES else _Undetached(request)


class PlainRequest(NamedTuple):
    """The values of a request in the plain shape, with a summary of its records."""

    values: tuple[Any, ...]

    @property
    def records_size(self) -> int:
        """The size of the records in bytes."""
        last = self.values[-1]
        return last.size if isinstance(last, RecordsSummary) else 0


def plain_request_of(call: Call, values: tuple[Any, ...]) -> tuple[PlainRequest, tuple[Target, ...] | None]:
    """Return the form in which the journal keeps a request in the plain shape, and its targets if it names ids."""
    if isinstance(values[-1], memoryview):  # records are always the last field
        values = (*values[:-1], summary(values[-1]))
    cls = call.endpoint.request
    if not _has_topic_ids(cls, call.api_version):
        return PlainRequest(values), None
    return PlainRequest(values), early_targets(call.endpoint, message_of(cls, values), call)


def without_records(endpoint: Endpoint, kept: Any, *, copy: bool) -> Any:
    """Put summaries into the place of the records of a request, in a copy or in the message itself."""
    if isinstance(kept, _Undetached):
        path = cast("tuple[str, ...]", _path_to_records(endpoint.request))
        if copy:
            return _Undetached(_summarized(kept.message, path))
        _drop_records(kept.message, path)
    return kept


class _Spliced(NamedTuple):
    """The bytes of a message without its records, and these: (position, summary or range of a file)."""

    frame: bytes
    records: list[tuple[int, RecordsSummary | LogSlice | None]]


def size_of(frame: bytes, splices: Sequence[tuple[int, LogSlice]]) -> int:
    """The size of a response whose `frame` is without what stands in files."""
    size = len(frame)
    for _, part in splices:
        size += part.size
    return size


def response_of(endpoint: Endpoint, response: Any, frame: bytes, splices: Sequence[tuple[int, LogSlice]] = ()) -> Any:
    """The form in which the journal keeps a response; `frame` is without what stands in files, which is in `splices`.

    A response with records has been sent and is not used any more: its records go.
    """
    cls = endpoint.response
    if may_keep_bytes(cls):
        return frame
    path = _path_to_records(cls)
    if path is None:
        return detached(response)
    if isinstance(response, tuple) or (len(frame) <= MOST_BYTES and size_of(frame, splices) <= _MOST_FILLED):
        return _Spliced(frame, [(position, summary_or_range(part)) for position, part in splices])
    _drop_records(response, path)
    return _Undetached(response)


def _summarized(message: Any, path: tuple[str, ...]) -> Any:
    """A copy of a message as far as its records, and with a summary of these."""
    made = shallow_copy(message)
    name, rest = path[0], path[1:]
    value = getattr(message, name)
    if not rest:
        setattr(made, name, summary(value))
    elif value is not None:
        setattr(made, name, [_summarized(each, rest) for each in value])
    return made


def _drop_records(message: Any, path: tuple[str, ...]) -> None:
    """Put summaries into the place of records, but for ranges that take long to read."""
    name = path[-1]
    for holder in _holders(message, path):
        value = getattr(holder, name)
        if value:
            setattr(holder, name, summary_or_range(value))


def _path_to_records(cls: type[Any]) -> tuple[str, ...] | None:
    """The names of the lists that lead to the only field of records, and its own.

    None for a message with other fields that are to be copied, or with secrets.
    """
    try:
        return _RECORDS_AT[cls]
    except KeyError:
        path = _RECORDS_AT[cls] = _found_path(cls)
        return path


def _found_path(cls: type[Any]) -> tuple[str, ...] | None:
    kinds = [field.kind for _, field in _all_fields(cls) if field.kind is p.RECORDS or field.kind is p.BYTES]
    if len(kinds) != 1 or kinds[0] is not p.RECORDS or holds_secrets(cls):
        return None
    for field in fields_of(cls):
        if field.kind is p.RECORDS:
            return (field.name,)
        if field.is_array and not isinstance(field.kind, p.WireType):
            rest = _found_path(field.kind)
            if rest is not None:
                return (field.name, *rest)
    return None


def _uses_topic_ids(names: Names, request: Any) -> bool:
    return any(
        getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID
        for shape in names.topics
        for holder in (getattr(request, shape.within) if shape.within else (request,))
        for topic in getattr(holder, shape.topics) or ()
    )


def early_targets(endpoint: Endpoint, request: Any, call: Call) -> tuple[Target, ...] | None:
    """The targets of a request as long as the broker knows them: those of topic ids, of a session, or all topics.

    None for a request that names all its targets itself.
    """
    names = endpoint.names
    has_ids = _has_topic_ids(endpoint.request, call.api_version)
    if request is None:
        return targets_of(names, request, call) if has_ids else None
    if has_ids and _uses_topic_ids(names, request):
        return targets_of(names, request, call)
    return implied_targets(names, request, call) or None


def decoded_request(endpoint: Endpoint, kept: Any) -> Any:
    """A request, from any form in which one is kept."""
    if isinstance(kept, bytes):
        view = memoryview(kept)
        header = read_request_header(view)
        is_flexible = header.api_version in endpoint.flexible
        position = skip_tagged_fields(view, header.body) if is_flexible else header.body
        return detached(decode(endpoint.request, view, header.api_version, position)[0])
    if isinstance(kept, _Undetached):
        return detached(kept.message)
    if isinstance(kept, PlainRequest):
        return message_of(endpoint.request, kept.values)
    return kept


def decoded_response(endpoint: Endpoint, version: int, kept: Any) -> Any:
    """A response, from any form in which one is kept."""
    if isinstance(kept, _Undetached):
        return detached(kept.message)
    records: list[Any] = []
    if isinstance(kept, _Spliced):
        kept, records = _with_marks(kept), [each for _, each in kept.records]
    if not isinstance(kept, bytes):
        return kept
    view = memoryview(kept)
    position = _RESPONSE_HEADER_SIZE
    if endpoint.has_flexible_response_header(version):
        position = skip_tagged_fields(view, position)
    response = decode(endpoint.response, view, version, position)[0]
    if records:
        _replace_marks(response, cast("tuple[str, ...]", _path_to_records(endpoint.response)), iter(records))
    return detached(response)


def _with_marks(spliced: _Spliced) -> bytes:
    """The whole message, with marks in the place of its records."""
    parts: list[bytes] = []
    end = 0
    for position, records in spliced.records:
        parts += spliced.frame[end:position], _MARK * cast("RecordsSummary | LogSlice", records).size
        end = position
    return b"".join((*parts, spliced.frame[end:]))


def _replace_marks(response: Any, path: tuple[str, ...], records: Iterator[Any]) -> None:
    for holder in _holders(response, path):
        if bytes((getattr(holder, path[-1]) or b"")[:1]) == _MARK:
            setattr(holder, path[-1], next(records))


def _holders(message: Any, path: tuple[str, ...]) -> list[Any]:
    """The structures that have a field of records, in their order."""
    holders = [message]
    for name in path[:-1]:
        holders = [each for holder in holders for each in getattr(holder, name) or ()]
    return holders


def may_keep_bytes(cls: type[Any]) -> bool:
    """Whether the bytes of a message hold neither records nor secrets."""
    known = _MAY_KEEP.get(cls)
    if known is None:
        known = _MAY_KEEP[cls] = not (
            holds_secrets(cls) or any(field.kind is p.RECORDS for _, field in _all_fields(cls))
        )
    return known


def holds_secrets(cls: type[Any]) -> bool:
    """Whether a message has fields for secrets, in any version."""
    return any(field.name in SECRETS or holder.__name__ == SETTING for holder, field in _all_fields(cls))


def _has_topic_ids(cls: type[Any], version: int) -> bool:
    known = _HAS_IDS.get((cls, version))
    if known is None:
        known = _HAS_IDS[cls, version] = any(
            field.name == "topic_id" and version in field.present for _, field in _all_fields(cls)
        )
    return known


def _all_fields(cls: type[Any]) -> Iterator[tuple[type[Any], Field]]:
    """The fields of a message and of all structures within it, each with its class."""
    for field in fields_of(cls):
        yield cls, field
        if not isinstance(field.kind, p.WireType):
            yield from _all_fields(field.kind)
