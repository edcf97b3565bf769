"""Incremental fetch sessions (KIP-227): a consumer names partitions once, then only changes.

A request with session epoch 0 opens a session that holds all its partitions. The following requests have epochs 1, 2,
... They name only partitions that are new, changed or forgotten, and get only partitions with something new. A request
with epoch -1 has no session, and closes the one that it names. Sessions are kept in a cache of limited size (Kafka's
`FetchSessionCache`). From version 13 of Fetch on topics go by ids. A session that began with names stays with names.

A session is kept in `Node.fetch_sessions` of the node that answers. It ends with its node, with a request of epoch 0
or -1 that names it, with its last partition, and when another session takes its place (`_make_room`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from minibroker_protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    # A start loads a message only when a client sends it.
    from minibroker_protocol.messages.fetch import (
        FetchPartition,
        FetchRequest,
        FetchTopic,
        ForgottenTopic,
        PartitionData,
    )

TopicIds = Any
"""`Topics`, by way of `with_id`; to import the class would close a circle of imports."""
FetchKey = tuple[str | bytes, int]
"""A partition by its topic, named or, from version 13 on, by its id, and its number."""
NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 0x7FFFFFFF
_EVICTION_MS: Final = 120_000
_UNKNOWN: Final = -1


class CachedPartition:
    """A partition in a session: the request for it, and the last response to the consumer.

    Attributes:
        partition: the `Partition` that the last fetch has read without an error; None before that.
    """

    __slots__ = ("high_watermark", "log_start_offset", "partition", "request")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark: int = _UNKNOWN
        self.log_start_offset: int = _UNKNOWN
        self.partition: Any = None

    def note(self, data: PartitionData) -> bool:
        """Remember the numbers in `data`.

        Returns whether any of them is new (`CachedPartition.maybeUpdateResponseData`).
        """
        news = data.high_watermark != self.high_watermark or data.log_start_offset != self.log_start_offset
        # After an error all counts as new, so that the consumer hears of its end as well.
        self.high_watermark = _UNKNOWN if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news or data.error_code != 0 or data.preferred_read_replica >= 0 or has_records(data)


def has_records(data: PartitionData) -> bool:
    """Does the answer carry any bytes of records?"""
    records = data.records
    if records is None:
        return False
    return (len(records) if isinstance(records, bytes | bytearray | memoryview) else records.size) > 0


class FetchSession:
    """One session. The order of `partitions` is the order in which they are served; those served last come last.

    Attributes:
        names: the topics that ids have stood for, of a session that goes by ids; None for one that does not.
        targets: the partitions as faults and the journal name them, with the names of all topics for which that holds.
            It is the handler's, and None after each change of the partitions or of their order.
    """

    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "names", "partitions", "targets")

    def __init__(self, session_id: int, now_ms: int, *, uses_ids: bool = False) -> None:
        self.id = session_id
        self.names: dict[bytes, str] | None = {} if uses_ids else None
        # Epoch 0 was the request that opened it: the next one is expected to be 1.
        self.epoch = 1
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.partitions: dict[FetchKey, CachedPartition] = {}
        self.targets: tuple[frozenset[str], tuple[Any, ...]] | None = None

    def add(self, topic: FetchTopic, partitions: Iterable[FetchPartition], ids: TopicIds | None) -> None:
        """Add or change partitions of a topic of a request; `ids` as for `FetchSessionCache.context`."""
        known = self.partitions
        named: str | bytes = topic.topic
        if ids is not None and self.names is not None:
            named = topic.topic_id
            known_topic = ids.with_id(topic.topic_id)
            if known_topic is not None:
                # Kept with the session: after a deletion the id has no topic, and errors and the journal still need its
                # name.
                self.names[topic.topic_id] = known_topic.name
        for each in partitions:
            key = (named, each.partition)
            entry = known.get(key)
            if entry is None:
                known[key] = CachedPartition(each)
                self.targets = None
            else:
                # The numbers of the last response stay: the consumer knows them, whatever it asks for now.
                entry.request = each
                entry.partition = None  # so that it is read

    def drop(self, forgotten: Iterable[ForgottenTopic], ids: TopicIds | None) -> None:
        """Drop what a request forgets."""
        for topic in forgotten:
            for index in topic.partitions:
                key = (topic.topic if ids is None else topic.topic_id, index)
                if key in self.partitions:
                    del self.partitions[key]
                    self.targets = None

    def forget(self, key: FetchKey) -> None:
        """No response to the consumer had this partition yet."""
        entry = self.partitions.get(key)
        if entry is not None:
            # So the next response has it, though nothing may have changed since.
            entry.high_watermark = _UNKNOWN

    def move_to_end(self, key: FetchKey) -> None:
        """Serve a partition behind all others from now on."""
        self.partitions[key] = self.partitions.pop(key)
        self.targets = None


class FetchContext:
    """The partitions of one fetch request, and the selection of those that its response holds.

    Attributes:
        partitions: the requests for partitions, in order. Empty for an incremental fetch, which is about those of its
            session.
        session: None for a request without one.
        incremental: the answer leaves out partitions without news.
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
        """Return whether a newer fetch of the session arrived while this incremental one waited."""
        return self.incremental and self.session is not None and self.session.epoch != self._epoch

    @property
    def keys(self) -> Iterable[FetchKey]:
        """The partitions that the request is about, in order."""
        return self.session.partitions if self.incremental and self.session is not None else self.partitions

    def select(self, results: Mapping[FetchKey, PartitionData]) -> Mapping[FetchKey, PartitionData]:
        """The results that the response holds, in order; the session notes what its consumer now knows."""
        session = self.session
        if session is None:
            return results
        selected: dict[FetchKey, PartitionData] = {}
        for key, data in results.items():
            entry = session.partitions.get(key)
            # The partition was forgotten while the request waited.
            if entry is None:
                continue
            if entry.note(data) or not self.incremental:
                selected[key] = data
                if self.incremental and has_records(data):
                    # Partitions that were served go to the end, so that max_bytes starves none.
                    session.move_to_end(key)
        return selected


class FetchSessionError(Exception):
    """The request's session id or epoch is not the broker's; `code` is the answer's error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessionCache:
    """All sessions of a node, at most `slots` (`max.incremental.fetch.session.cache.slots`)."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        """The sessions, the least recently used first."""
        return iter(tuple(self._sessions.values()))

    def get(self, session_id: int) -> FetchSession | None:
        """The session with this id."""
        return self._sessions.get(session_id)

    def clear(self) -> None:
        """End all sessions."""
        self._sessions.clear()

    def topics_deleted(self) -> None:
        """Release the partitions of deleted topics, since a session may have no further fetch."""
        for session in self._sessions.values():
            for entry in session.partitions.values():
                if entry.partition is not None and entry.partition.topic.is_gone:
                    entry.partition = None

    def _end(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def context(self, request: FetchRequest, now_ms: int, ids: TopicIds | None = None) -> FetchContext:
        """The context of a request; `ids` has the topics of one that names them by their ids.

        Raises FetchSessionError when it names an unknown session or a wrong epoch, or when one of the two goes by ids
        and the other by names.
        """
        session = self._known(request, now_ms, ids)
        asked: dict[FetchKey, FetchPartition] | None = None
        if session is None:
            asked = {}
            for topic in request.topics:
                named = topic.topic if ids is None else topic.topic_id
                for each in topic.partitions:
                    asked[named, each.partition] = each
            session = self._new(request, len(asked), now_ms, ids)
            if session is None:
                return FetchContext(asked)
        for topic in request.topics:
            session.add(topic, topic.partitions, ids)
        session.drop(request.forgotten_topics_data, ids)
        if asked is not None:
            self._sessions[session.id] = session
            return FetchContext(asked, session)
        # A session that has forgotten all its partitions has nothing left to wait for, as in Kafka.
        if not session.partitions:
            self._end(session.id)
            return FetchContext({})
        return FetchContext({}, session, incremental=True)

    def _known(self, request: FetchRequest, now_ms: int, ids: TopicIds | None) -> FetchSession | None:
        """The session that a request goes on with, in its next epoch; None for a request that asks for all."""
        if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
            self._end(request.session_id)
            return None
        # After a restart of the broker or an eviction: the client then opens a new session with all its partitions.
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        # A response was lost, so that consumer and broker no longer agree on what the consumer knows.
        if session.epoch != request.session_epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        # The client has changed between versions of Fetch that name topics and versions that have ids (KIP-516).
        if (session.names is None) is not (ids is None):
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # 0 opens a session: the count wraps to 1 (`FetchMetadata.nextEpoch`).
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.last_used_ms = now_ms
        # The dict is the LRU list: the one used last stands last.
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def _new(self, request: FetchRequest, size: int, now_ms: int, ids: TopicIds | None) -> FetchSession | None:
        """A session for a request that asks for `size` partitions, if it wants one and there is room."""
        if request.session_epoch == FINAL_EPOCH or not self._make_room(size, now_ms):
            return None
        return FetchSession(self._new_id(), now_ms, uses_ids=ids is not None)

    def _make_room(self, size: int, now_ms: int) -> bool:
        """Is there a slot for a session of `size` partitions, perhaps after closing another one?

        As Kafka does: a session unused for two minutes gives way to any, one older than two minutes to a larger one.
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

    def _new_id(self) -> int:
        while True:
            session_id = _random_id()
            # An id in use would give one consumer the partitions of another.
            if session_id not in self._sessions:
                return session_id


def _random_id() -> int:
    """An id that cannot be guessed. `secrets` has the like, and loads ten modules at each start."""
    return int.from_bytes(os.urandom(8), "big") % _MAX_EPOCH + 1
