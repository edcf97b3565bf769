"""Loading of a coordinator topic's partitions.

A partition is replayed before anything is done with what belongs to it: a small one at once, a larger one in steps.
Requests wait for these steps, or clients get COORDINATOR_LOAD_IN_PROGRESS where that would take long.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import ForEach, steps_of
from minibroker.cluster.topics import Topic
from minibroker.coordinators.coordinator_log import CoordinatorLog
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.batch import Batch

_WAITED_FOR: Final = 4 << 20
"""Requests wait for the replay of a partition with fewer bytes, about a second. Of a larger one they are refused."""
_REPLAYED_AT_ONCE: Final = 1 << 16
"""So much takes some 10 ms, and is replayed in one step even where requests could wait for several."""
_RETRY_MS: Final = 5_000
"""A partition that could not be read is not tried again before so long."""
_MAX_COMPLAINTS: Final = 100
_logger = logging.getLogger(__name__)


class Replaying(Protocol):
    """The state that the records of a partition amount to."""

    def read(self, batches: Iterable[Batch]) -> None:
        """Take in batches, in the order of the log."""
        ...

    def finish(self) -> ForEach[None]:
        """Return the work that makes of them what they amount to."""
        ...


class Complaints:
    """Warnings about damaged records of a partition. Each is logged once, so that they do not fill the disk."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._complaints: set[str] = set()

    def add(self, complaint: str) -> None:
        """Log a warning about a record that is skipped."""
        if complaint not in self._complaints and len(self._complaints) < _MAX_COMPLAINTS:
            self._complaints.add(complaint)
            _logger.warning("%s: %s; passed over", self._name, complaint)


R = TypeVar("R", bound=Replaying)


class _Loading(Generic[R]):
    """A partition that is being replayed."""

    def __init__(self, replay: R) -> None:
        self.replay = replay
        self.size = 0
        self.steps: Iterator[None] = iter(())
        self.error: Exception | None = None


class PartitionLoader(Generic[R]):
    """The loading of one coordinator's partitions.

    Args:
        make_replay: begins the replay of a partition, which it is given the name of.
        on_loaded: called with each partition that was replayed, and the result.
        on_topic_lost: is called when the topic was deleted, and all that was loaded is void.
        is_awaited: whether requests take the steps of `awaited` first. Else they wait in one step.

    Attributes:
        is_closed: whether nothing is loaded any more.
    """

    def __init__(
        self,
        core: Core,
        log: CoordinatorLog,
        make_replay: Callable[[str], R],
        on_loaded: Callable[[int, R], None],
        on_topic_lost: Callable[[], None],
        *,
        is_awaited: bool = False,
    ) -> None:
        self._core = core
        self._log = log
        self._make_replay = make_replay
        self._on_loaded = on_loaded
        self._on_topic_lost = on_topic_lost
        self._is_awaited = is_awaited
        self._topic: Topic | None = log.topic
        self._loaded: set[int] = set()
        self._loading: dict[int, _Loading[R]] = {}
        self._failed: dict[int, float] = {}  # when to try again, on the clock that cannot be set
        self._unread: list[int] = []
        self.is_closed = False

    def look_at_topic(self) -> None:
        """Notice that the topic was made, or was deleted."""
        topic = self._log.topic
        if topic is self._topic:
            return
        known, self._topic = self._topic, topic
        if known is None:  # it has just been made, and there is nothing in it
            self._loaded.update(range(self._log.partition_count))
            return
        self._loaded.clear()
        self._loading.clear()
        self._failed.clear()
        self._unread = []
        self._on_topic_lost()

    @property
    def is_loading(self) -> bool:
        """Whether there is a partition that is being replayed, or has its turn still to come."""
        return bool(self._loading or self._unread)

    def is_loaded(self, partition: int) -> bool:
        """Whether all is known about a partition."""
        return partition in self._loaded

    def replay_of(self, partition: int) -> R | None:
        """The replay of a partition that is being loaded."""
        loading = self._loading.get(partition)
        return None if loading is None else loading.replay

    def readiness(self, key: str, node: Node | None, known: Container[str] = ()) -> ErrorCode:
        """NONE once all is known about a group or transactional id; its partition is loaded if need be.

        COORDINATOR_LOAD_IN_PROGRESS while that takes its time, COORDINATOR_NOT_AVAILABLE when it cannot be read.
        NOT_COORDINATOR when `node` does not coordinate the key, or, without a node, when none does. The partition of a
        key in `known` is loaded.
        """
        misplaced = self._log.coordinator_error(key, node)
        if misplaced:
            return misplaced
        self.look_at_topic()
        return ErrorCode.NONE if key in known else self._load(self._log.partition_of(key))

    def has_loaded(self, partition: int) -> bool:
        """Whether all is known about a partition of the topic that there is now."""
        self.look_at_topic()
        return self._topic is not None and partition in self._loaded

    def _load(self, partition: int) -> ErrorCode:
        if self._topic is None or partition in self._loaded:
            return ErrorCode.NONE
        limit = _REPLAYED_AT_ONCE if self._is_awaited else _WAITED_FOR
        loading = self._begun(partition, limit)
        if loading is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if loading.size < limit:
            for _ in loading.steps:  # also where `load_all` has begun with them
                pass
            self._on_replayed(partition, loading)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self._loaded else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def awaited(self, key: str, node: Node | None) -> Iterator[None]:
        """Steps behind which all is known about a group or transactional id, for a request that can wait.

        They are those of its partition's replay: all requests that wait for it take part. There are none for a
        partition that is too large to be waited for, and where there is nothing to load; `readiness` tells.
        """
        if self._log.coordinator_error(key, node):
            return
        self.look_at_topic()
        partition = self._log.partition_of(key)
        if self._topic is None or partition in self._loaded:
            return
        loading = self._begun(partition, _WAITED_FOR)
        if loading is not None and loading.size < _WAITED_FOR:
            yield from loading.steps
            self._on_replayed(partition, loading)

    def _begun(self, partition: int, limit: int) -> _Loading[R] | None:
        """The replay of a partition; one of so many bytes goes on beside the requests. None if it has just failed."""
        loading = self._loading.get(partition)
        if loading is None and not self._has_failed(partition):
            loading = self._begin(partition)
            if loading.size >= limit:
                self._core.chores.run(loading.steps, partial(self._on_replayed, partition, loading))
        return loading

    def load_all(self) -> None:
        """Load all partitions, one after the other, beside the requests; `is_loading` until that is done."""
        self.look_at_topic()
        if not self._unread:
            self._unread = self._not_loaded()
            self._read(self._unread)

    def reload(self, partition: int) -> None:
        """Another node coordinates what is in a partition: forget that it was loaded, and load it if needed.

        That begins in the next turn of the event loop, with all partitions that have moved by then: each of the many
        that move when a node goes down would begin with a slice of its own.
        """
        self._loaded.discard(partition)
        self._loading.pop(partition, None)
        self._failed.pop(partition, None)
        if self._log.is_offline(partition):
            return
        if self._unread:
            self._unread.append(partition)
        else:
            self.look_at_topic()
            self._unread = self._not_loaded()
            self._core.call_soon(partial(self._read, self._unread))

    def load_failed(self) -> None:
        """Try again to load what could not be read; nothing happens when there is no such partition."""
        self.look_at_topic()
        if self._failed:
            self._failed = dict.fromkeys(self._failed, 0)
            self.load_all()

    def close(self) -> None:
        """Load no further."""
        self.is_closed = True

    def _not_loaded(self) -> list[int]:
        count = 0 if self._topic is None else len(self._topic.partitions)
        return [index for index in range(count) if index not in self._loaded and not self._log.is_offline(index)]

    def _read(self, unread: list[int]) -> None:
        self._core.chores.run(self._load_in_turn(unread), unread.clear)

    def _load_in_turn(self, unread: list[int]) -> Iterator[None]:
        while unread and unread is self._unread and not self.is_closed:
            partition = unread.pop(0)
            known = partition in self._loaded or partition in self._loading
            if not known and not self._has_failed(partition):
                loading = self._begin(partition)
                yield from loading.steps
                self._on_replayed(partition, loading)
            yield

    def _has_failed(self, partition: int) -> bool:
        """Could it not be read, so shortly before that it is not worth another try?"""
        now_ms = self._core.clock.monotonic_ms()
        return self._failed.get(partition, now_ms) > now_ms

    def _begin(self, partition: int) -> _Loading[R]:
        loading = self._loading[partition] = _Loading(self._make_replay(f"{self._log.name}-{partition}"))
        try:
            loading.size = self._log.size(partition)
        except MAPPED as error:
            loading.error = error
        else:
            loading.steps = self._replay(partition, loading)
        return loading

    def _replay(self, partition: int, loading: _Loading[R]) -> Iterator[None]:
        try:
            for batches in self._log.replay(partition):
                if self.is_closed or self._loading.get(partition) is not loading:
                    return
                loading.replay.read(batches)
                yield
            yield from steps_of(loading.replay.finish())
        except MAPPED as error:
            loading.error = error

    def _on_replayed(self, partition: int, loading: _Loading[R]) -> None:
        if self.is_closed or self._loading.get(partition) is not loading:
            return  # it is through already, or the topic is gone
        del self._loading[partition]
        if loading.error is not None:
            if partition not in self._failed:
                _logger.error("%s-%d cannot be read: %s", self._log.name, partition, loading.error)
            self._failed[partition] = self._core.clock.monotonic_ms() + _RETRY_MS
            return
        self._failed.pop(partition, None)
        self._loaded.add(partition)
        self._on_loaded(partition, loading.replay)
