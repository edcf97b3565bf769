"""Messages as the journal keeps them: bytes of its own, decoded when somebody reads them.

To decode and to copy a message costs more than to serve the request, and few are ever read. Messages with records or
secrets are copied at once, without these (`message_json.detached`), and so are long requests, whose bytes may hold more
than the message. Of a repeated Produce the journal keeps what the short way remembers, and a summary of the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.inspection.message_json import SECRETS, SETTING, RecordsSummary, detached, records_in, summary
from minibroker.requests.targets import targets_of
from minibroker_protocol import primitives as p
from minibroker_protocol.codec import decode
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.primitives import ZERO_UUID, skip_tagged_fields
from minibroker_protocol.schema import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.requests.call import Call
    from minibroker.requests.declarations import Names, Target
    from minibroker.requests.endpoints import Endpoint
    from minibroker.requests.repeated_produce import Appended
    from minibroker.requests.repeats import ShortWay
    from minibroker.routing.outcomes import Noted
    from minibroker_protocol.schema import Field

MOST_BYTES: Final = 4096
"""A longer request is decoded at once: a client may add bytes that belong to no field."""
_RESPONSE_HEADER_SIZE: Final = 8
"""Length and correlation id."""
_MAY_KEEP: Final[dict[type[Any], bool]] = {}
_HAS_IDS: Final[dict[tuple[type[Any], int], bool]] = {}


def request_of(endpoint: Endpoint, frame: memoryview, request: Any) -> Any:
    """The form in which the journal keeps a request; `request` is decoded from `frame`."""
    if request is None or len(frame) > MOST_BYTES or not may_keep_bytes(endpoint.request):
        return detached(request)
    return bytes(frame)


def repeated_request_of(way: ShortWay, frame: memoryview) -> tuple[Any, tuple[Target, ...] | None]:
    """The form in which the journal keeps a request that has taken the short way, and its targets.

    No targets for a request that names them all itself.
    """
    endpoint = way.endpoint
    if not may_keep_bytes(endpoint.request):
        request, records = way.remembered(frame)
        return (request, summary(records)), early_targets(endpoint, request, way.call)
    if endpoint.names.implied is None and not _has_topic_ids(endpoint.request, way.call.api_version):
        return bytes(frame), None
    return bytes(frame), early_targets(endpoint, way.remembered(frame)[0], way.call)


def request_of_note(note: Noted) -> Any:
    """The form in which the journal keeps a request that was noted (`requests.noting`)."""
    if may_keep_bytes(note.way.endpoint.request):
        return note.head
    appended = cast("Appended", note)
    return note.known.request, RecordsSummary(appended.records_size, 1, records_in(note.head))


def names_itself(endpoint: Endpoint, request: Any, version: int) -> bool:
    """Whether a request names all its targets itself, by their names, whatever else the broker knows."""
    names = endpoint.names
    if names.implied is not None and not any(getattr(request, each.topics) for each in names.topics):
        return False
    return not (_has_topic_ids(endpoint.request, version) and _uses_topic_ids(names, request))


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
    if request is None:
        return targets_of(names, request, call) if _has_topic_ids(endpoint.request, call.api_version) else None
    if (_has_topic_ids(endpoint.request, call.api_version) and _uses_topic_ids(names, request)) or (
        names.implied is not None and names.implied(request, call)
    ):
        return targets_of(names, request, call)
    return None


def decoded_request(endpoint: Endpoint, kept: Any) -> Any:
    """A request, from any form in which one is kept."""
    if isinstance(kept, bytes):
        view = memoryview(kept)
        header = read_request_header(view)
        is_flexible = header.api_version in endpoint.flexible
        position = skip_tagged_fields(view, header.body) if is_flexible else header.body
        return detached(decode(endpoint.request, view, header.api_version, position)[0])
    if isinstance(kept, tuple):
        known, records = cast("tuple[Any, RecordsSummary]", kept)
        request = detached(known)
        request.topic_data[0].partition_data[0].records = records
        return request
    return kept


def decoded_response(endpoint: Endpoint, version: int, kept: Any) -> Any:
    """A response, from its frame; a message is returned as it is."""
    if not isinstance(kept, bytes):
        return kept
    view = memoryview(kept)
    position = _RESPONSE_HEADER_SIZE
    if endpoint.has_flexible_response_header(version):
        position = skip_tagged_fields(view, position)
    return detached(decode(endpoint.response, view, version, position)[0])


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
