"""Incremental fetch sessions (KIP-227): a consumer lists its partitions once, and then only changes.

A request with session epoch 0 opens a session with all its partitions. The following requests have epochs 1, 2, and so
on. They only list partitions that are new, changed or forgotten, and their responses only contain partitions with
something new. A request with epoch -1 uses no session, and closes the session that it names. Sessions are stored in a
cache of limited size (Kafka's `FetchSessionCache`). From version 13 on, Fetch identifies topics by id. A session that
was opened with names keeps using names.

A session is stored in `Node.fetch_sessions` of the node that serves it. It ends when the node stops, when a request
with epoch 0 or -1 names it, when its last partition is removed, or when another session replaces it (`_make_room`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from minibroker_protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    # Messages are loaded when a client first sends them, to keep start-up fast.
    from minibroker_protocol.messages.fetch import (
        FetchPartition,
        FetchRequest,
        FetchTopic,
        ForgottenTopic,
        PartitionData,
    )

TopicIds = Any
"""`Topics`, of which only `with_id` is used. Importing the class would create an import cycle."""
FetchKey = tuple[str | bytes, int]
"""The topic of a partition, by name or, from version 13 on, by id, and its partition number."""
NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 0x7FFFFFFF
_EVICTION_MS: Final = 120_000
_UNKNOWN: Final = -1


class CachedPartition:
    """A partition in a session: the request for it, and the last response to the consumer.

    Attributes:
        partition: The `Partition` that the last fetch read without an error, or None before the first such fetch.
    """

    __slots__ = ("high_watermark", "log_start_offset", "partition", "request")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark: int = _UNKNOWN
        self.log_start_offset: int = _UNKNOWN
        self.partition: Any = None

    def note(self, data: PartitionData) -> bool:
        """Remember the offsets in `data`.

        Returns:
            Whether the response must include the partition (`CachedPartition.maybeUpdateResponseData`).
        """
        is_new = data.high_watermark != self.high_watermark or data.log_start_offset != self.log_start_offset
        # After an error the high watermark counts as unknown, so that the next response without an error is sent.
        self.high_watermark = _UNKNOWN if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return is_new or data.error_code != 0 or data.preferred_read_replica >= 0 or has_records(data)


def has_records(data: PartitionData) -> bool:
    """Return whether a response contains any records."""
    records = data.records
    if records is None:
        return False
    return (len(records) if isinstance(records, bytes | bytearray | memoryview) else records.size) > 0


class FetchSession:
    """A fetch session. `partitions` are served in order, and those just served are moved to the end.

    Attributes:
        names: The topic names by id, or None for a session that identifies topics by name.
        targets: The partitions in the form used by faults and the journal, with the topic names for which that form
            is valid. The handler sets this. It is reset to None whenever the partitions or their order change.
    """

    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "names", "partitions", "targets")

    def __init__(self, session_id: int, now_ms: int, *, uses_ids: bool = False) -> None:
        self.id = session_id
        self.names: dict[bytes, str] | None = {} if uses_ids else None
        # The request that opened the session had epoch 0, so 1 is expected next.
        self.epoch = 1
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.partitions: dict[FetchKey, CachedPartition] = {}
        self.targets: tuple[frozenset[str], tuple[Any, ...]] | None = None

    def add(self, topic: FetchTopic, partitions: Iterable[FetchPartition], ids: TopicIds | None) -> None:
        """Add or change partitions of one topic in a request. See `FetchSessionCache.context` for `ids`."""
        cached = self.partitions
        topic_key: str | bytes = topic.topic
        if ids is not None and self.names is not None:
            topic_key = topic.topic_id
            existing_topic = ids.with_id(topic.topic_id)
            if existing_topic is not None:
                # The session keeps the name. After a deletion the id has no topic, but errors and the journal still
                # need the name.
                self.names[topic.topic_id] = existing_topic.name
        for partition in partitions:
            key = (topic_key, partition.partition)
            entry = cached.get(key)
            if entry is None:
                cached[key] = CachedPartition(partition)
                self.targets = None
            else:
                # Keep the offsets of the last response, because the consumer has already received them.
                entry.request = partition
                entry.partition = None  # The last read does not count for the new request.

    def drop(self, forgotten: Iterable[ForgottenTopic], ids: TopicIds | None) -> None:
        """Remove the partitions that a request lists as forgotten."""
        for topic in forgotten:
            for index in topic.partitions:
                key = (topic.topic if ids is None else topic.topic_id, index)
                if key in self.partitions:
                    del self.partitions[key]
                    self.targets = None

    def forget(self, key: FetchKey) -> None:
        """Discard the last response for a partition, because it did not reach the consumer."""
        entry = self.partitions.get(key)
        if entry is not None:
            # The next response then includes the partition even if nothing has changed.
            entry.high_watermark = _UNKNOWN

    def move_to_end(self, key: FetchKey) -> None:
        """Serve a partition after all others from now on."""
        self.partitions[key] = self.partitions.pop(key)
        self.targets = None


class FetchContext:
    """The partitions of one fetch request, and the selection of those included in the response.

    Attributes:
        partitions: The requested partitions, in order. Empty for an incremental fetch, which requests the
            partitions of its session.
        session: The session, or None for a request without one.
        incremental: Whether the response omits partitions without news.
    """

    __slots__ = ("_epoch", "incremental", "partitions", "session", "session_id")

    def __init__(
        self,
        partitions: dict[FetchKey, FetchPartition],
        session: FetchSession | None = None,
        *,
        incremental: bool = False,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.session_id = session.id if session else NO_SESSION
        self.incremental = incremental
        self._epoch = session.epoch if session else INITIAL_EPOCH

    @property
    def is_outdated(self) -> bool:
        """Whether a newer fetch of the session arrived while this incremental fetch waited."""
        return self.incremental and self.session is not None and self.session.epoch != self._epoch

    @property
    def keys(self) -> Iterable[FetchKey]:
        """The requested partitions, in order."""
        return self.session.partitions if self.incremental and self.session is not None else self.partitions

    def select(self, results: Mapping[FetchKey, PartitionData]) -> Mapping[FetchKey, PartitionData]:
        """Return the results for the response, in order, and record in the session what the response contains."""
        session = self.session
        if session is None:
            return results
        selected: dict[FetchKey, PartitionData] = {}
        for key, data in results.items():
            entry = session.partitions.get(key)
            # Skip a partition that the client dropped from the session while this request waited.
            if entry is None:
                continue
            if entry.note(data) or not self.incremental:
                selected[key] = data
                if self.incremental and has_records(data):
                    # Partitions with records move to the end, so that max_bytes starves none of them.
                    session.move_to_end(key)
        return selected


class FetchSessionError(Exception):
    """A request names an unknown session id or a wrong epoch. `code` is the response's error code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessionCache:
    """The sessions of a node, at most `slots` (`max.incremental.fetch.session.cache.slots`)."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}  # The least recently used session is first.

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        """Iterate over the sessions, the least recently used first."""
        return iter(tuple(self._sessions.values()))

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session with this id, or None."""
        return self._sessions.get(session_id)

    def clear(self) -> None:
        """Close all sessions."""
        self._sessions.clear()

    def forget_deleted_topics(self) -> None:
        """Release the partitions of deleted topics now, since a session may never fetch again."""
        for session in self._sessions.values():
            for entry in session.partitions.values():
                if entry.partition is not None and entry.partition.topic.is_gone:
                    entry.partition = None

    def _end(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def context(self, request: FetchRequest, now_ms: int, ids: TopicIds | None = None) -> FetchContext:
        """Return the context of a request.

        Args:
            request: The request.
            now_ms: The current time in milliseconds.
            ids: The topics, for a request that identifies topics by id.

        Raises:
            FetchSessionError: The session is unknown, the epoch is wrong, or the request uses topic ids and the
                session uses names, or vice versa.
        """
        session = self._continue_session(request, now_ms, ids)
        requested: dict[FetchKey, FetchPartition] | None = None
        if session is None:
            requested = {}
            for topic in request.topics:
                topic_key = topic.topic if ids is None else topic.topic_id
                for partition in topic.partitions:
                    requested[topic_key, partition.partition] = partition
            if request.session_epoch == FINAL_EPOCH or not self._make_room(len(requested), now_ms):
                return FetchContext(requested)
            session = FetchSession(self._create_id(), now_ms, uses_ids=ids is not None)
        for topic in request.topics:
            session.add(topic, topic.partitions, ids)
        session.drop(request.forgotten_topics_data, ids)
        if requested is not None:
            self._sessions[session.id] = session
            return FetchContext(requested, session)
        # As in Kafka, a session ends when its last partition is dropped.
        if not session.partitions:
            self._end(session.id)
            return FetchContext({})
        return FetchContext({}, session, incremental=True)

    def _continue_session(self, request: FetchRequest, now_ms: int, ids: TopicIds | None) -> FetchSession | None:
        """Return the session that a request continues, in its next epoch, or None for a full fetch."""
        if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self._end(request.session_id)
            return None
        # The session is gone after a restart of the broker or an eviction. On this error the client opens a new session
        # with all its partitions.
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        # After a lost response, the epochs differ, and the session no longer describes the consumer's state.
        if session.epoch != request.session_epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        # A client that switches between Fetch versions with topic names and with topic ids needs a new session
        # (KIP-516).
        if (session.names is None) is not (ids is None):
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Epoch 0 opens a session, so the epoch wraps to 1 (`FetchMetadata.nextEpoch`).
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.last_used_ms = now_ms
        # The dict doubles as the LRU list: the most recently used session is its last entry.
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Return whether there is a slot for a session of `size` partitions, evicting another session if necessary.

        As in Kafka, any session may replace one that has been unused for two minutes, and a larger session may
        replace one that is older than two minutes.
        """
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        least_recent = next(iter(self._sessions.values()))
        if now_ms - least_recent.last_used_ms > _EVICTION_MS:
            self._end(least_recent.id)
            return True
        evictable = [session for session in self._sessions.values() if now_ms - session.created_ms > _EVICTION_MS]
        smallest = min(evictable, key=lambda session: len(session.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self._end(smallest.id)
        return True

    def _create_id(self) -> int:
        """Return an unused id that cannot be guessed.

        The module `secrets` could create one, but loads ten more modules at every start.
        """
        while True:
            session_id = int.from_bytes(os.urandom(8), "big") % _MAX_EPOCH + 1
            # A duplicate id would give one consumer the partitions of another.
            if session_id not in self._sessions:
                return session_id
