"""The share-partitions in use, and the share sessions of each broker (Kafka's `SharePartitionManager`)."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.features import SHARE_VERSION
from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.cluster.routing.slices import Steps
from minibroker.config.keys import BY_DURATION, EARLIEST, OffsetReset
from minibroker.coordinators.share_partitions.dead_letter_queues import NAME, DeadLetterMetrics, DeadLetterWrite
from minibroker.coordinators.share_partitions.in_flight import Acknowledgement, DeadRecords, Limits, Write
from minibroker.coordinators.share_partitions.sessions import MemberKey, ShareSessions, TopicIdPartition
from minibroker.coordinators.share_partitions.share_partition import SharePartition
from minibroker.coordinators.share_state.coordinator import ShareCoordinator
from minibroker.coordinators.share_state.state import UNKNOWN, Change, SharePartitionKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.lookup import search_by_timestamp

_FIRST_LEVEL_WITH_QUEUES: Final = 2
"""The level of share.version from which groups have dead-letter queues."""
_SAMPLE_SIZE: Final = 1028
"""The sample size of Kafka's histograms."""
_READ_COMMITTED_LEVEL: Final = "read_committed"
_RETRIABLE_ERRORS: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_FENCING_ERRORS: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_PASSED_ERRORS: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND})
_UNLOADING_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, *_PASSED_ERRORS})
"""The coordinator's errors after which a share-partition must be reloaded."""


def _error_of(code: ErrorCode) -> ErrorCode:
    """Translate a share coordinator's error into the member's error (`SharePartition.fetchPersisterError`)."""
    if code in _RETRIABLE_ERRORS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _FENCING_ERRORS:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code if not code or code in _PASSED_ERRORS else ErrorCode.UNKNOWN_SERVER_ERROR


class Histogram:
    """A histogram of recent values.

    Attributes:
        count: The number of all values so far.
        values: The most recent values.
    """

    __slots__ = ("count", "values")

    def __init__(self) -> None:
        self.count = 0
        self.values: deque[float] = deque(maxlen=_SAMPLE_SIZE)

    def add(self, value: float) -> None:
        """Add a value."""
        self.count += 1
        self.values.append(value)

    def quantile(self, share: float) -> float:
        """Return the quantile `share` (0 to 1) of the recent values, or 0 without values."""
        ordered = sorted(self.values)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0


@dataclass(slots=True)
class FetchMetrics:
    """The metrics of a group's ShareFetch requests.

    Attributes:
        ratio: The percentage of a request's partitions from which records were acquired.
        acquire_ms: The time until records were acquired.
    """

    ratio: Histogram = field(default_factory=Histogram)
    acquire_ms: Histogram = field(default_factory=Histogram)


class ShareGroupMetrics:
    """The metrics of all share groups in this process (Kafka's `ShareGroupMetrics`).

    Attributes:
        acknowledged: The number of records by type of acknowledgement.
        load_ms: The time to load a share-partition.
        fetches: The metrics of ShareFetch requests by group id.
    """

    def __init__(self) -> None:
        self.acknowledged: Counter[int] = Counter()
        self.load_ms = Histogram()
        self.fetches: defaultdict[str, FetchMetrics] = defaultdict(FetchMetrics)

    def acknowledge(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Count records that a member has acknowledged successfully."""
        for first, last, types in acknowledgements:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                self.acknowledged.update(types)


class _LoadedPartition(NamedTuple):
    node: Node | None
    share_partition: SharePartition


class SharePartitions:
    """All share-partitions in use.

    A share-partition is loaded by the first fetch. It is forgotten when the connection of the group's last member
    closes.

    Attributes:
        dead_letters: The metrics of the dead-letter queues in use, by group id.
        metrics: The metrics of requests.
    """

    def __init__(self, core: Core, states: ShareCoordinator) -> None:
        self.dead_letters: dict[str, DeadLetterMetrics] = {}
        self.metrics = ShareGroupMetrics()
        self._core = core
        self._states = states
        self._in_use: dict[SharePartitionKey, _LoadedPartition] = {}
        self._keys_by_partition: dict[TopicIdPartition, dict[SharePartitionKey, None]] = {}
        self._sessions = defaultdict[int, ShareSessions](
            lambda: ShareSessions(core.config.integer("group.share.max.share.sessions"))
        )
        self._limits: dict[str, Limits] = {}
        self._features_epoch = 0
        self._waiting: dict[SharePartitionKey, dict[Callable[[], None], None]] = {}
        states.on_initialized = self.forget
        core.hooks.config_changed.subscribe(lambda _: self._limits.clear())

    def sessions(self, node: Node) -> ShareSessions:
        """Return the share sessions of a broker."""
        return self._sessions[node.id]

    def limits(self, group_id: str) -> Limits:
        """Return the limits of a group."""
        features = self._core.features
        if self._features_epoch != features.epoch:
            self._features_epoch = features.epoch
            self._limits.clear()
        if (limits := self._limits.get(group_id)) is None:
            config = self._core.configs.group(group_id)
            limits = self._limits[group_id] = Limits(
                config.integer("share.record.lock.duration.ms"),
                config.integer("share.delivery.count.limit"),
                config.integer("share.partition.max.record.locks"),
                config.boolean("share.renew.acknowledge.enable"),
                features.level(SHARE_VERSION) >= _FIRST_LEVEL_WITH_QUEUES and bool(config.text(NAME)),
                config.text("share.isolation.level").lower() == _READ_COMMITTED_LEVEL,
            )
        return limits

    @property
    def all(self) -> dict[SharePartitionKey, SharePartition]:
        """The share-partitions in use."""
        return {key: in_use.share_partition for key, in_use in self._in_use.items()}

    def find(self, key: SharePartitionKey) -> SharePartition | None:
        """Return a share-partition in use on any broker, or None."""
        in_use = self._in_use.get(key)
        return None if in_use is None else in_use.share_partition

    def get(self, key: SharePartitionKey, node: Node) -> SharePartition | None:
        """Return a share-partition in use on `node`, or None."""
        in_use = self._in_use.get(key)
        return None if in_use is None or in_use.node is not node else in_use.share_partition

    def load(self, key: SharePartitionKey, partition: Partition) -> Steps[SharePartition | ErrorCode]:
        """Return a share-partition, loading it if necessary, or an error. NONE means that it cannot be loaded yet."""
        if (in_use := self.find(key)) is not None:
            return in_use
        began_ms = self._core.clock.monotonic_ms()
        state = self._states.read(key, partition.leader_epoch)
        if state.code:
            code = _error_of(state.code)
            return ErrorCode.NONE if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else code
        start = state.start_offset
        if start == UNKNOWN:  # The group has never read the partition, so its reset policy applies.
            reset = OffsetReset.of(self._core.configs.group(key.group_id).text("share.auto.offset.reset"))
            try:
                log = partition.log
                start = log.log_start_offset if reset.kind == EARLIEST else log.high_watermark
                if reset.kind == BY_DURATION:
                    time = self._core.clock.now_ms() - reset.before_ms
                    first = yield from search_by_timestamp(log.segments, time, log.log_start_offset)
                    start = log.high_watermark if first is None else first.offset
            except MAPPED as error:
                return error_code_of(error)
            if (in_use := self.find(key)) is not None:  # Another request loaded it between two steps.
                return in_use
        share_partition = SharePartition(
            self._core.clock,
            start,
            state.batches,
            partial(self.limits, key.group_id),
            partial(self._write, key, state.state_epoch, partition.leader_epoch),
            partial(self.wake_fetches, key),
            partial(self._write_dead_letters, key),
        )
        self._in_use[key] = _LoadedPartition(partition.leader, share_partition)
        self._keys_by_partition.setdefault(key[1:], {})[key] = None
        self.metrics.load_ms.add(self._core.clock.monotonic_ms() - began_ms)
        share_partition.resume()
        return share_partition

    def _write_dead_letters(self, key: SharePartitionKey, dead: Sequence[DeadRecords]) -> None:
        share_partition = self._in_use[key].share_partition
        metrics = self.dead_letters.setdefault(key.group_id, DeadLetterMetrics())
        in_order = sorted(dead)
        done = partial(share_partition.archive_dead, in_order)
        write = DeadLetterWrite(self._core, key, in_order, metrics, lambda: not share_partition.is_fenced, done)
        self._core.call_soon(write.begin)

    def _write(self, key: SharePartitionKey, state_epoch: int, leader_epoch: int, state: Write) -> ErrorCode:
        change = Change(leader_epoch, state.start_offset, state.delivery_complete_count, state.batches)
        code = _error_of(self._states.write(key, state_epoch, change).code)
        if code in _UNLOADING_ERRORS:
            self.forget(key)
        return code

    def release(self, node: Node, members: Sequence[MemberKey], *, are_lost: bool = False) -> Steps[None]:
        """Close members' sessions, and release the records that they have acquired.

        If `are_lost` is true, the members' connection was lost. The share-partitions of groups without any session are
        then forgotten.
        """
        sessions = self.sessions(node)
        for member in members:
            session = sessions.close(member)
            group_id, member_id = member
            for topic_id, index in session.partitions if session is not None else ():
                key = SharePartitionKey(group_id, topic_id, index)
                if (share_partition := self.get(key, node)) is not None:
                    share_partition.release(member_id)
                yield
                # Do not release the records of a session that the member has opened in the meantime.
                if sessions.get(member) is not None:
                    break
        for group_id in dict.fromkeys(group_id for group_id, _ in members) if are_lost else ():
            if not sessions.has_group(group_id):
                for key, in_use in tuple(self._in_use.items()):
                    if key.group_id == group_id and in_use.node is node:
                        self.forget(key)
                yield

    def connection_lost(self, node: Node, connection: object) -> None:
        """Close the sessions that a connection has opened.

        If a group has no other session, its share-partitions are forgotten.
        """
        if members := self.sessions(node).find_by_connection(connection):
            self._core.slices.begin(self.release(node, members, are_lost=True))

    def leader_moved(self, partition: Partition) -> None:
        """Forget the share-partitions of a partition, because another broker leads it now and loads their states."""
        for key in tuple(self._keys_by_partition.get((partition.topic.id, partition.index), ())):
            self.forget(key)

    def forget_deleted_topics(self) -> None:
        """Forget the share-partitions of deleted topics."""
        for key in tuple(self._in_use):
            if self._core.topics.with_id(key.topic_id) is None:
                self.forget(key)

    def forget(self, key: SharePartitionKey) -> None:
        """Forget a share-partition. The next fetch loads it again."""
        if (in_use := self._in_use.pop(key, None)) is not None:
            keys = self._keys_by_partition[key[1:]]
            del keys[key]
            if not keys:
                del self._keys_by_partition[key[1:]]
            in_use.share_partition.fence()
            self.wake_fetches(key)

    def close(self) -> None:
        """Forget all share-partitions."""
        for key in tuple(self._in_use):
            self.forget(key)

    def watch(self, keys: Collection[SharePartitionKey], wake: Callable[[], None]) -> None:
        """Call `wake` whenever more records of a share-partition may have become available."""
        for key in keys:
            self._waiting.setdefault(key, {})[wake] = None

    def unwatch(self, keys: Collection[SharePartitionKey], wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        for key in keys:
            if (waiting := self._waiting.get(key)) is not None:
                waiting.pop(wake, None)
                if not waiting:
                    del self._waiting[key]

    def wake_fetches(self, key: SharePartitionKey) -> None:
        """Wake the fetches that wait for records of a share-partition."""
        for wake in tuple(self._waiting.get(key, ())):
            wake()
