"""The base class of the coordinators' stores. It loads the partitions of a coordinator's topic.

A partition is replayed before its coordinator serves requests. A small partition is replayed immediately, and a larger
one in steps. Requests wait for these steps, or fail with COORDINATOR_LOAD_IN_PROGRESS if the replay would take long.
"""

import logging
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final, Generic, TypeVar

from minibroker.cluster.core import Core
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import ForEach, steps_of
from minibroker.cluster.topics import Topic
from minibroker.coordinators.coordinator_log import CoordinatorLog
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.batch import Batch
from minibroker_protocol.records.record import NewRecord

_MAX_AWAITED_BYTES: Final = 4 << 20
"""Requests are refused during a replay of at least this many bytes. Smaller replays take about a second at most."""
_MAX_SINGLE_STEP_BYTES: Final = 1 << 16
"""The size in bytes below which a partition is replayed in one step of about 10 ms, even if requests could wait."""
_RETRY_MS: Final = 5_000
"""The pause before an unreadable partition is read again."""
_MAX_WARNINGS: Final = 1000
_logger = logging.getLogger(__name__)


class PartitionReplay:
    """The state restored from the records of the partition `name`. Unreadable records are logged and skipped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._warnings: set[str] = set()

    def read(self, batches: Iterable[Batch]) -> None:
        """Load batches in log order."""
        for batch in batches:
            try:
                self._read(batch)
            except DecodeError as error:
                self._warn(f"a batch cannot be read: {error}")

    def _read(self, batch: Batch) -> None:
        raise NotImplementedError

    def finish(self) -> ForEach[None]:
        """Return the work that decodes the loaded records."""
        raise NotImplementedError

    def _warn(self, warning: str) -> None:
        """Log a warning about a skipped record once, so that a damaged file does not fill the disk."""
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
    """The base class of the coordinators' stores. It loads the partitions of a coordinator's topic.

    Attributes:
        log: The coordinator's topic.
        is_closed: Whether loading has stopped for good.
    """

    _is_loaded_in_steps: ClassVar[bool] = False
    """Whether requests run the steps of `wait_until_loaded` first, instead of replaying in a single step."""
    _known_keys: Container[str] = ()
    """Keys whose partitions are known to be loaded."""

    def __init__(self, core: Core, log: CoordinatorLog) -> None:
        self._core = core
        self.log = log
        self._topic: Topic | None = log.topic
        self._loaded: set[int] = set()
        self._loading: dict[int, _LoadingPartition[R]] = {}
        self._failed: dict[int, float] = {}  # The monotonic time of the next attempt, by partition.
        self._unread: list[int] = []
        self.is_closed = False

    def _make_replay(self, name: str) -> R:
        """Return the replay of the partition with the given name."""
        raise NotImplementedError

    def _use_replay(self, partition: int, replay: R) -> None:
        """Use the finished replay of a partition."""
        raise NotImplementedError

    def _on_topic_lost(self) -> None:
        """Remove all state, because the topic was deleted."""
        raise NotImplementedError

    def _drop_partition(self, partition: int) -> None:
        """Remove the state of a partition, because another node coordinates it now."""
        raise NotImplementedError

    def update_topic(self) -> None:
        """Update the state after the topic was created or deleted."""
        topic = self.log.topic
        if topic is self._topic:
            return
        previous, self._topic = self._topic, topic
        if previous is None:  # The topic has just been created, so there is nothing to load.
            self._loaded.update(range(self.log.partition_count))
            return
        self._loaded.clear()
        self._loading.clear()
        self._failed.clear()
        self._unread = []
        self._on_topic_lost()

    @property
    def is_loading(self) -> bool:
        """Whether any partition is being replayed or waits to be replayed."""
        self.update_topic()
        return bool(self._loading or self._unread)

    def is_loaded(self, partition: int) -> bool:
        """Return whether a partition of the current topic is loaded."""
        self.update_topic()
        return self._topic is not None and partition in self._loaded

    def check_readiness(self, key: str, node: Node | None = None) -> ErrorCode:
        """Return NONE if requests for a key can be served, or an error. Start loading the key's partition if needed.

        Args:
            key: A group id, a transactional id or a share-partition's coordinator key.
            node: The node that received the request, or None to accept any coordinator.

        Returns:
            NONE, COORDINATOR_LOAD_IN_PROGRESS during a long replay, COORDINATOR_NOT_AVAILABLE if the partition is
            unreadable, or NOT_COORDINATOR if another node coordinates the key, or no node at all.
        """
        if misplaced := self.log.coordinator_error(key, node):
            return misplaced
        self.update_topic()
        return ErrorCode.NONE if key in self._known_keys else self._load(self.log.partition_of(key))

    def _load(self, partition: int) -> ErrorCode:
        if self._topic is None or partition in self._loaded:
            return ErrorCode.NONE
        limit = _MAX_SINGLE_STEP_BYTES if self._is_loaded_in_steps else _MAX_AWAITED_BYTES
        if (loading := self._get_or_begin_replay(partition, limit)) is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if loading.size < limit:
            # Run the remaining steps. `load_all` may already have run some of them.
            for _ in loading.steps:
                pass
            self._on_replayed(partition, loading)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self._loaded else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def wait_until_loaded(self, key: str, node: Node | None) -> Iterator[None]:
        """Yield until the partition of a group or transactional id is loaded, for a request that can wait.

        All waiting requests share the steps of one replay. Yields nothing if the partition is too large to wait for, or
        if there is nothing to load. In both cases, `check_readiness` returns the state of the partition.
        """
        if self.log.coordinator_error(key, node):
            return
        self.update_topic()
        partition = self.log.partition_of(key)
        if self._topic is None or partition in self._loaded:
            return
        loading = self._get_or_begin_replay(partition, _MAX_AWAITED_BYTES)
        if loading is not None and loading.size < _MAX_AWAITED_BYTES:
            yield from loading.steps
            self._on_replayed(partition, loading)

    def _get_or_begin_replay(self, partition: int, limit: int) -> _LoadingPartition[R] | None:
        """Return the replay of a partition, started if necessary, or None if reading the partition has just failed.

        The replay of a partition of at least `limit` bytes runs in the background.
        """
        loading = self._loading.get(partition)
        if loading is None and not self._has_failed(partition):
            loading = self._begin_replay(partition)
            if loading.size >= limit:
                self._core.chores.run(loading.steps, partial(self._on_replayed, partition, loading))
        return loading

    def load_all(self) -> None:
        """Load all partitions in the background, one after another. `is_loading` is true until all are loaded."""
        self.update_topic()
        if not self._unread:
            self._unread = self._unloaded_partitions()
            self._load_queued(self._unread)

    def leader_moved(self, partition: int) -> None:
        """Drop the state of a partition, because another node coordinates it now, and load it again.

        The log is replayed even though both nodes are in this process. Waiting requests get an error, as in Kafka.

        Loading begins in the next turn of the event loop, together with all other partitions moved by then. When a node
        goes down, many partitions move, and each would otherwise take a time slice of its own.
        """
        # Drop the state before the reload, so that no request sees the old coordinator's state while the log is read.
        self._drop_partition(partition)
        self._loaded.discard(partition)
        self._loading.pop(partition, None)
        self._failed.pop(partition, None)
        if self.log.is_offline(partition):
            return
        if self._unread:
            self._unread.append(partition)
        else:
            self.update_topic()
            self._unread = self._unloaded_partitions()
            self._core.call_soon(partial(self._load_queued, self._unread))

    def retry_failed(self) -> None:
        """Try again to load the partitions that were unreadable."""
        self.update_topic()
        if self._failed:
            self._failed = dict.fromkeys(self._failed, 0)
            self.load_all()

    def now_ms(self) -> int:
        """Return the timestamp for new records."""
        return self._core.clock.now_ms()

    def _append(self, partition: int, records: Sequence[NewRecord]) -> int:
        """Append records to a partition, creating the topic if necessary, and return the offset of the first record.

        Raises:
            CoordinatorLogError: The records could not be written.
        """
        offset = self.log.append(partition, records)
        self.update_topic()
        return offset

    def close(self) -> None:
        """Stop loading."""
        self.is_closed = True

    def _unloaded_partitions(self) -> list[int]:
        count = 0 if self._topic is None else len(self._topic.partitions)
        return [index for index in range(count) if index not in self._loaded and not self.log.is_offline(index)]

    def _load_queued(self, unread: list[int]) -> None:
        self._core.chores.run(self._load_in_turn(unread), unread.clear)

    def _load_in_turn(self, unread: list[int]) -> Iterator[None]:
        while unread and unread is self._unread and not self.is_closed:
            partition = unread.pop(0)
            is_known = partition in self._loaded or partition in self._loading
            if not is_known and not self._has_failed(partition):
                loading = self._begin_replay(partition)
                yield from loading.steps
                self._on_replayed(partition, loading)
            yield

    def _has_failed(self, partition: int) -> bool:
        """Return whether reading a partition has failed so recently that it is too early to try again."""
        now_ms = self._core.clock.monotonic_ms()
        return self._failed.get(partition, now_ms) > now_ms

    def _begin_replay(self, partition: int) -> _LoadingPartition[R]:
        loading = self._loading[partition] = _LoadingPartition(self._make_replay(f"{self.log.name}-{partition}"))
        try:
            loading.size = self.log.size(partition)
        except MAPPED as error:
            loading.error = error
        else:
            loading.steps = self._replay(partition, loading)
        return loading

    def _replay(self, partition: int, loading: _LoadingPartition[R]) -> Iterator[None]:
        try:
            for batches in self.log.replay(partition):
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
                _logger.error("%s-%d cannot be read: %s", self.log.name, partition, loading.error)
            self._failed[partition] = self._core.clock.monotonic_ms() + _RETRY_MS
            return
        self._failed.pop(partition, None)
        self._loaded.add(partition)
        self._use_replay(partition, loading.replay)
