"""Loading of the partitions of a coordinator's topic.

A partition is replayed before its coordinator serves requests for it. A small partition is replayed immediately, and a
larger one in steps. Requests wait for these steps, or get COORDINATOR_LOAD_IN_PROGRESS if the replay would take long.
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

_MAX_AWAITED_BYTES: Final = 4 << 20
"""The size in bytes from which requests are refused during a replay. Smaller replays take about a second."""
_MAX_SINGLE_STEP_BYTES: Final = 1 << 16
"""The size in bytes below which a partition is replayed in one step of about 10 ms.

This holds even if requests could wait for several steps.
"""
_RETRY_MS: Final = 5_000
"""The pause before an unreadable partition is read again."""
_MAX_WARNINGS: Final = 100
_logger = logging.getLogger(__name__)


class PartitionReplay(Protocol):
    """The state restored from the records of a partition."""

    def read(self, batches: Iterable[Batch]) -> None:
        """Load batches in log order."""
        ...

    def finish(self) -> ForEach[None]:
        """Return the work that decodes the loaded records."""
        ...


class SkippedRecords:
    """Warnings about damaged records of a partition. Each is logged only once, to save disk space."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._warnings: set[str] = set()

    def add(self, warning: str) -> None:
        """Log a warning about a skipped record."""
        if warning not in self._warnings and len(self._warnings) < _MAX_WARNINGS:
            self._warnings.add(warning)
            _logger.warning("%s: %s; passed over", self._name, warning)


R = TypeVar("R", bound=PartitionReplay)


class _LoadingPartition(Generic[R]):
    """The ongoing replay of a partition."""

    def __init__(self, replay: R) -> None:
        self.replay = replay
        self.size = 0
        self.steps: Iterator[None] = iter(())
        self.error: Exception | None = None


class PartitionLoader(Generic[R]):
    """The loader of the partitions of one coordinator's topic.

    Args:
        make_replay: Returns the replay of the partition with the given name.
        on_loaded: Called with each loaded partition and its replay.
        on_topic_lost: Called when the topic was deleted, which invalidates everything loaded.
        is_loaded_in_steps: Whether requests run the steps of `awaited` first, instead of replaying in a single step.

    Attributes:
        is_closed: Whether loading has stopped for good.
    """

    def __init__(
        self,
        core: Core,
        log: CoordinatorLog,
        make_replay: Callable[[str], R],
        on_loaded: Callable[[int, R], None],
        on_topic_lost: Callable[[], None],
        *,
        is_loaded_in_steps: bool = False,
    ) -> None:
        self._core = core
        self._log = log
        self._make_replay = make_replay
        self._on_loaded = on_loaded
        self._on_topic_lost = on_topic_lost
        self._is_awaited = is_loaded_in_steps
        self._topic: Topic | None = log.topic
        self._loaded: set[int] = set()
        self._loading: dict[int, _LoadingPartition[R]] = {}
        self._failed: dict[int, float] = {}  # When to try again, in monotonic time.
        self._unread: list[int] = []
        self.is_closed = False

    def update_topic(self) -> None:
        """Update the state after the topic was created or deleted."""
        topic = self._log.topic
        if topic is self._topic:
            return
        previous, self._topic = self._topic, topic
        if previous is None:  # The topic has just been created, and is empty.
            self._loaded.update(range(self._log.partition_count))
            return
        self._loaded.clear()
        self._loading.clear()
        self._failed.clear()
        self._unread = []
        self._on_topic_lost()

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being replayed or queued for it."""
        return bool(self._loading or self._unread)

    def is_loaded(self, partition: int) -> bool:
        """Return whether a partition is loaded."""
        return partition in self._loaded

    def replay_of(self, partition: int) -> R | None:
        """Return the ongoing replay of a partition, or None."""
        loading = self._loading.get(partition)
        return None if loading is None else loading.replay

    def readiness(self, key: str, node: Node | None, known: Container[str] = ()) -> ErrorCode:
        """Return NONE if requests for a key can be served, and start to load its partition if necessary.

        Args:
            key: A group id, a transactional id or a share-partition's coordinator key.
            node: The node that got the request. Without a node, any coordinator will do.
            known: Keys whose partitions are known to be loaded.

        Returns:
            NONE, COORDINATOR_LOAD_IN_PROGRESS during a long replay, COORDINATOR_NOT_AVAILABLE if the partition is
            unreadable, or NOT_COORDINATOR if `node` does not coordinate the key, or no node does.
        """
        misplaced = self._log.coordinator_error(key, node)
        if misplaced:
            return misplaced
        self.update_topic()
        return ErrorCode.NONE if key in known else self._load(self._log.partition_of(key))

    def has_loaded(self, partition: int) -> bool:
        """Return whether a partition of the current topic is loaded."""
        self.update_topic()
        return self._topic is not None and partition in self._loaded

    def _load(self, partition: int) -> ErrorCode:
        if self._topic is None or partition in self._loaded:
            return ErrorCode.NONE
        limit = _MAX_SINGLE_STEP_BYTES if self._is_awaited else _MAX_AWAITED_BYTES
        loading = self._get_or_begin(partition, limit)
        if loading is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if loading.size < limit:
            for _ in loading.steps:  # `load_all` may have begun these steps.
                pass
            self._on_replayed(partition, loading)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self._loaded else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def awaited(self, key: str, node: Node | None) -> Iterator[None]:
        """Yield until the partition of a group or transactional id is loaded, for a request that can wait.

        All waiting requests share the steps of one replay. Yields nothing if the partition is too large to wait for, or
        if there is nothing to load. `readiness` returns which case it is.
        """
        if self._log.coordinator_error(key, node):
            return
        self.update_topic()
        partition = self._log.partition_of(key)
        if self._topic is None or partition in self._loaded:
            return
        loading = self._get_or_begin(partition, _MAX_AWAITED_BYTES)
        if loading is not None and loading.size < _MAX_AWAITED_BYTES:
            yield from loading.steps
            self._on_replayed(partition, loading)

    def _get_or_begin(self, partition: int, limit: int) -> _LoadingPartition[R] | None:
        """Return the replay of a partition, started if necessary, or None if reading it has just failed.

        The replay of a partition of at least `limit` bytes runs in the background.
        """
        loading = self._loading.get(partition)
        if loading is None and not self._has_failed(partition):
            loading = self._begin(partition)
            if loading.size >= limit:
                self._core.chores.run(loading.steps, partial(self._on_replayed, partition, loading))
        return loading

    def load_all(self) -> None:
        """Load all partitions in the background, one after another. `is_loading` is true until this is done."""
        self.update_topic()
        if not self._unread:
            self._unread = self._unloaded_partitions()
            self._load_queued(self._unread)

    def reload(self, partition: int) -> None:
        """Forget that a partition was loaded, because another node coordinates it now, and load it again.

        Loading begins in the next turn of the event loop, together with all other partitions moved by then. When a node
        goes down, many partitions move, and each would otherwise begin with its own time slice.
        """
        self._loaded.discard(partition)
        self._loading.pop(partition, None)
        self._failed.pop(partition, None)
        if self._log.is_offline(partition):
            return
        if self._unread:
            self._unread.append(partition)
        else:
            self.update_topic()
            self._unread = self._unloaded_partitions()
            self._core.call_soon(partial(self._load_queued, self._unread))

    def retry_failed(self) -> None:
        """Try again to load unreadable partitions, if any."""
        self.update_topic()
        if self._failed:
            self._failed = dict.fromkeys(self._failed, 0)
            self.load_all()

    def close(self) -> None:
        """Stop loading."""
        self.is_closed = True

    def _unloaded_partitions(self) -> list[int]:
        count = 0 if self._topic is None else len(self._topic.partitions)
        return [index for index in range(count) if index not in self._loaded and not self._log.is_offline(index)]

    def _load_queued(self, unread: list[int]) -> None:
        self._core.chores.run(self._load_in_turn(unread), unread.clear)

    def _load_in_turn(self, unread: list[int]) -> Iterator[None]:
        while unread and unread is self._unread and not self.is_closed:
            partition = unread.pop(0)
            is_known = partition in self._loaded or partition in self._loading
            if not is_known and not self._has_failed(partition):
                loading = self._begin(partition)
                yield from loading.steps
                self._on_replayed(partition, loading)
            yield

    def _has_failed(self, partition: int) -> bool:
        """Return whether reading a partition failed so recently that it is not tried again."""
        now_ms = self._core.clock.monotonic_ms()
        return self._failed.get(partition, now_ms) > now_ms

    def _begin(self, partition: int) -> _LoadingPartition[R]:
        loading = self._loading[partition] = _LoadingPartition(self._make_replay(f"{self._log.name}-{partition}"))
        try:
            loading.size = self._log.size(partition)
        except MAPPED as error:
            loading.error = error
        else:
            loading.steps = self._replay(partition, loading)
        return loading

    def _replay(self, partition: int, loading: _LoadingPartition[R]) -> Iterator[None]:
        try:
            for batches in self._log.replay(partition):
                if self.is_closed or self._loading.get(partition) is not loading:
                    return
                loading.replay.read(batches)
                yield
            yield from steps_of(loading.replay.finish())
        except MAPPED as error:
            loading.error = error

    def _on_replayed(self, partition: int, loading: _LoadingPartition[R]) -> None:
        if self.is_closed or self._loading.get(partition) is not loading:
            return  # The partition was finished earlier, or the topic is gone.
        del self._loading[partition]
        if loading.error is not None:
            if partition not in self._failed:
                _logger.error("%s-%d cannot be read: %s", self._log.name, partition, loading.error)
            self._failed[partition] = self._core.clock.monotonic_ms() + _RETRY_MS
            return
        self._failed.pop(partition, None)
        self._loaded.add(partition)
        self._on_loaded(partition, loading.replay)
