"""The bytes saved by fetch sessions (KIP-227), found by comparing recorded exchanges with full fetches.

A full fetch names all partitions of the session, and its response contains all of them. An incremental fetch differs
only by the partitions that it omits, and the size of an omitted partition depends only on the version. Records are
therefore never decoded. Each exchange is read only once, when the page is viewed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from minibroker.server.inspection.exchanges import Kind
from minibroker_lab.page.recorder import Reader
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import encode
from minibroker_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.page.recorder import Recorder

_FIRST_WITH_SESSIONS: Final = 7
_OPENING_EPOCH: Final = 0
_MAX_SESSIONS: Final = 10_000
_LAST_EPOCH: Final = 0x7FFFFFFF

_PartitionKey = tuple[str, bytes, int]
"""A partition: the name and the id of its topic, one of which is empty, and the partition number."""


@dataclass(slots=True)
class Savings:
    """The savings from one session's incremental fetches. Bytes cover both directions and exclude records.

    Attributes:
        fetches: The number of answered fetches.
        full_bytes: The size of the same number of full fetches.
        saved_bytes: The part of `full_bytes` that was not sent.
    """

    fetches: int = 0
    full_bytes: int = 0
    saved_bytes: int = 0


@dataclass(slots=True)
class _Session:
    """A fetch session.

    Attributes:
        epoch: The session epoch of the next request.
        full: The sizes of a full request and its response, or None if unknown.
    """

    epoch: int
    partitions: dict[_PartitionKey, None] = field(default_factory=dict[_PartitionKey, None])
    full: tuple[int, int] | None = None
    savings: Savings = field(default_factory=Savings)


class FetchSavings:
    """The savings of all fetch sessions whose first request was recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._reader = Reader(recorder, self._note, _has_session)
        self._sessions: dict[tuple[str, int], _Session] = {}

    async def catch_up(self) -> None:
        """Read the exchanges recorded since the last call."""
        # If exchanges were dropped before they were read, forget all sessions, because any session may have changed.
        await self._reader.read_new(self._sessions.clear)

    def of(self, node: int, session_id: int) -> Savings | None:
        """Return the savings of a broker's session, or None if the start of the session is no longer recorded."""
        session = self._sessions.get((str(node), session_id))
        return None if session is None else session.savings

    def _note(self, exchange: Exchange) -> None:
        reading = self._recorder.rows.reading(exchange)
        request: FetchRequest | None = reading.request
        response: FetchResponse | None = reading.response
        if request is None:
            return
        node = exchange.broker.partition(" ")[0]
        session = self._sessions.get((node, request.session_id))
        if request.session_epoch <= _OPENING_EPOCH:
            self._sessions.pop((node, request.session_id), None)
            if request.session_epoch == _OPENING_EPOCH and response is not None and response.session_id:
                partitions = dict.fromkeys(_partition_keys(request.topics))
                self._sessions[node, response.session_id] = _Session(1, partitions)
                # Clients that disappear never close their sessions, so drop the oldest session.
                if len(self._sessions) > _MAX_SESSIONS:
                    del self._sessions[next(iter(self._sessions))]
            return
        if session is None:
            return
        # If a fetch of this session was not recorded, the session's partitions are no longer known.
        if session.epoch != request.session_epoch or exchange.loss is not None:
            del self._sessions[node, request.session_id]
            return
        if response is not None and response.error_code:
            return
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        self._add(session, request, response, exchange.version)

    def _add(self, session: _Session, request: FetchRequest, response: FetchResponse | None, version: int) -> None:
        places = _partition_keys(request.topics)
        if request.forgotten_topics_data or not session.partitions.keys() >= set(places):
            session.full = None
            session.partitions.update(dict.fromkeys(places))
            for topic in request.forgotten_topics_data:
                for index in topic.partitions:
                    session.partitions.pop((topic.topic, bytes(topic.topic_id), index), None)
        if session.full is None:
            session.full = (
                _encoded_size(_request_of(request, session.partitions), version),
                _encoded_size(_response_of(session.partitions), version),
            )
        savings = session.savings
        savings.fetches += 1
        savings.full_bytes += sum(session.full)
        savings.saved_bytes += session.full[0] - _encoded_size(request, version)
        # A response that was too large to be recorded counts as a response with all partitions.
        if response is not None:
            answered = [
                (topic.topic, bytes(topic.topic_id), part.partition_index)
                for topic in response.responses
                for part in topic.partitions
            ]
            savings.saved_bytes += session.full[1] - _encoded_size(_response_of(answered), version)


def _has_session(exchange: Exchange) -> bool:
    is_fetch = exchange.api_key == ApiKey.FETCH and exchange.kind is Kind.REQUEST
    return is_fetch and exchange.version >= _FIRST_WITH_SESSIONS


def _partition_keys(topics: Iterable[FetchTopic]) -> list[_PartitionKey]:
    return [(topic.topic, bytes(topic.topic_id), part.partition) for topic in topics for part in topic.partitions]


def _by_topic(places: Iterable[_PartitionKey]) -> dict[tuple[str, bytes], list[int]]:
    indexes_by_topic: dict[tuple[str, bytes], list[int]] = {}
    for name, topic_id, index in places:
        indexes_by_topic.setdefault((name, topic_id), []).append(index)
    return indexes_by_topic


def _request_of(request: FetchRequest, places: Iterable[_PartitionKey]) -> FetchRequest:
    """Return a copy of the request that names all partitions."""
    topics = [
        FetchTopic(
            topic=name,
            topic_id=topic_id,
            partitions=[FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=0) for index in indexes],
        )
        for (name, topic_id), indexes in _by_topic(places).items()
    ]
    return replace(request, topics=topics, forgotten_topics_data=[])


def _response_of(places: Iterable[_PartitionKey]) -> FetchResponse:
    """Return a response that has no new data for these partitions."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=name,
                topic_id=topic_id,
                partitions=[PartitionData(partition_index=index, error_code=0, high_watermark=0) for index in indexes],
            )
            for (name, topic_id), indexes in _by_topic(places).items()
        ]
    )


def _encoded_size(message: Any, version: int) -> int:
    out = bytearray()
    encode(message, version, out, [])
    return len(out)
