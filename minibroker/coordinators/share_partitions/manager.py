"""The share-partitions that are in use, and the share sessions of each broker (Kafka's `SharePartitionManager`)."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple

from minibroker.cluster.features import SHARE_VERSION
from minibroker.cluster.node import Node
from minibroker.cluster.partition import Partition
from minibroker.config.offset_reset import BY_DURATION, EARLIEST, OffsetReset
from minibroker.coordinators.share_partitions.acknowledging import Write
from minibroker.coordinators.share_partitions.dead_letter_queues import NAME, Buried, burial_of
from minibroker.coordinators.share_partitions.dead_records import DeadRecords
from minibroker.coordinators.share_partitions.limits import Limits
from minibroker.coordinators.share_partitions.measured import Measured
from minibroker.coordinators.share_partitions.sessions import MemberKey, ShareSessions, TopicIdPartition
from minibroker.coordinators.share_partitions.share_partition import SharePartition
from minibroker.coordinators.share_state.coordinator import ReadOutcome, ShareCoordinator
from minibroker.coordinators.share_state.state import UNKNOWN, Change, SharePartitionKey
from minibroker.core import Core
from minibroker.support.error_mapping import MAPPED, error_code_of
from minibroker.support.slices import Steps
from minibroker_protocol.error_codes import ErrorCode

_WITH_QUEUES: Final = 2
"""The level of share.version from which on groups have dead-letter queues."""
_STEP: Final = 100
"""Share-partitions that are given up in one step."""
_ONE_STEP: Final = (None,)
_READ_COMMITTED: Final = "read_committed"
_WAITS: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_FENCED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_KEPT: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND})
_ENDS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, *_KEPT})
"""Errors of the coordinator after which a share-partition has to be loaded again."""


def _error_of(code: ErrorCode) -> ErrorCode:
    """The error that a member gets for one of the share coordinator (`SharePartition.fetchPersisterError`)."""
    if code in _WAITS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _FENCED:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code if not code or code in _KEPT else ErrorCode.UNKNOWN_SERVER_ERROR


class _InUse(NamedTuple):
    node: Node | None
    share_partition: SharePartition


class SharePartitions:
    """All of them. A share-partition is loaded with the first fetch, and given up with the last member's connection.

    Attributes:
        buried: group id -> the numbers of its dead-letter queue, if anything has gone there.
        measured: numbers of requests, for metrics.
    """

    def __init__(self, core: Core, states: ShareCoordinator) -> None:
        self.buried: dict[str, Buried] = {}
        self.measured = Measured()
        self._core = core
        self._states = states
        self._in_use: dict[SharePartitionKey, _InUse] = {}
        self._of_place: dict[TopicIdPartition, dict[SharePartitionKey, None]] = {}
        self._sessions: dict[int, ShareSessions] = {}
        self._limits: dict[str, Limits] = {}
        self._features_epoch = 0
        self._waiting: dict[SharePartitionKey, dict[Callable[[], None], None]] = {}
        states.on_begun = self.forget
        core.hooks.config_changed.subscribe(lambda _: self._limits.clear())

    def sessions(self, node: Node) -> ShareSessions:
        """The sessions of a broker."""
        known = self._sessions.get(node.id)
        if known is None:
            limit = self._core.config.integer("group.share.max.share.sessions")
            known = self._sessions[node.id] = ShareSessions(limit)
        return known

    def limits(self, group_id: str) -> Limits:
        """The limits of a group."""
        features = self._core.features
        if self._features_epoch != features.epoch:
            self._features_epoch = features.epoch
            self._limits.clear()
        known = self._limits.get(group_id)
        if known is None:
            config = self._core.configs.group(group_id)
            known = self._limits[group_id] = Limits(
                config.integer("share.record.lock.duration.ms"),
                config.integer("share.delivery.count.limit"),
                config.integer("share.partition.max.record.locks"),
                config.boolean("share.renew.acknowledge.enable"),
                features.level(SHARE_VERSION) >= _WITH_QUEUES and bool(config.text(NAME)),
                config.text("share.isolation.level").lower() == _READ_COMMITTED,
            )
        return known

    # Share-partitions

    @property
    def all(self) -> dict[SharePartitionKey, SharePartition]:
        """Those that are in use."""
        return {key: each.share_partition for key, each in self._in_use.items()}

    def find(self, key: SharePartitionKey) -> SharePartition | None:
        """A share-partition that is in use on any broker."""
        found = self._in_use.get(key)
        return None if found is None else found.share_partition

    def get(self, key: SharePartitionKey, node: Node) -> SharePartition | None:
        """A share-partition that is in use on a broker."""
        found = self._in_use.get(key)
        return None if found is None or found.node is not node else found.share_partition

    def load(self, key: SharePartitionKey, place: Partition) -> Steps[SharePartition | ErrorCode]:
        """A share-partition, loaded if need be; NONE if that is not possible yet, or the error."""
        found = self._in_use.get(key)
        if found is not None:
            return found.share_partition
        began_ms = self._core.clock.monotonic_ms()
        read = self._states.read(key, place.leader_epoch)
        if read.code:
            code = _error_of(read.code)
            return ErrorCode.NONE if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else code
        start = read.start_offset
        if start == UNKNOWN:
            try:
                start = yield from self._first_offset(key.group_id, place)
            except MAPPED as error:
                return error_code_of(error)
        found = self._in_use.get(key)
        if found is not None:  # it was loaded between two steps
            return found.share_partition
        made = self._made(key, place, read, start)
        self._in_use[key] = _InUse(place.leader, made)
        self._of_place.setdefault(key[1:], {})[key] = None
        self.measured.load_ms.add(self._core.clock.monotonic_ms() - began_ms)
        made.resume()
        return made

    def _made(self, key: SharePartitionKey, place: Partition, read: ReadOutcome, start: int) -> SharePartition:
        return SharePartition(
            self._core.clock,
            start,
            read.batches,
            partial(self.limits, key.group_id),
            partial(self._write, key, read.state_epoch, place.leader_epoch),
            partial(self.changed, key),
            partial(self._bury, key),
        )

    def _bury(self, key: SharePartitionKey, dead: Sequence[DeadRecords]) -> None:
        share_partition = self._in_use[key].share_partition
        buried = self.buried.setdefault(key.group_id, Buried())
        burial_of(self._core, key, buried, lambda: not share_partition.is_fenced, share_partition.archive_dead, dead)

    def _first_offset(self, group_id: str, place: Partition) -> Steps[int]:
        """The offset to begin at in a partition that a group has not read before. StorageError, OSError."""
        reset = OffsetReset.of(self._core.configs.group(group_id).text("share.auto.offset.reset"))
        log = place.log
        if reset.kind == EARLIEST:
            return log.log_start_offset
        if reset.kind == BY_DURATION:
            found = yield from log.search_by_timestamp(self._core.clock.now_ms() - reset.before_ms)
            if found is not None:
                return found.offset
        return log.high_watermark

    def _write(self, key: SharePartitionKey, state_epoch: int, leader_epoch: int, state: Write) -> ErrorCode:
        change = Change(leader_epoch, state.start_offset, state.delivery_complete_count, state.batches)
        code = _error_of(self._states.write(key, state_epoch, change).code)
        if code in _ENDS:
            self.forget(key)
        return code

    # Ends

    def release(self, node: Node, member: MemberKey) -> Steps[None]:
        """End a member's session, and give back what it has acquired."""
        sessions = self.sessions(node)
        session = sessions.close(member)
        if session is None:
            return
        group_id, member_id = member
        for topic_id, index in session.partitions:
            found = self.get(SharePartitionKey(group_id, topic_id, index), node)
            for _ in _ONE_STEP if found is None else found.release(member_id):
                yield
                if sessions.get(member) is not None:  # it has begun again: what it has now is its own
                    return

    def connection_lost(self, node: Node, connection: object) -> None:
        """End the sessions that a connection has opened; with a group's last one its share-partitions are given up."""
        members = self.sessions(node).opened_by(connection)
        if members:
            self._core.slices.begin(self._end_sessions(node, members))

    def _end_sessions(self, node: Node, members: Sequence[MemberKey]) -> Steps[None]:
        sessions = self.sessions(node)
        for member in members:
            yield from self.release(node, member)
        for group_id in dict.fromkeys(group_id for group_id, _ in members):
            for count, (key, each) in enumerate(tuple(self._in_use.items())):
                if not count % _STEP:
                    yield
                    if sessions.has_group(group_id):
                        break
                if key.group_id == group_id and each.node is node:
                    self.forget(key)

    def leader_moved(self, place: Partition) -> None:
        """Another broker leads a partition: it loads the state."""
        for key in tuple(self._of_place.get((place.topic.id, place.index), ())):
            self.forget(key)

    def topics_deleted(self) -> None:
        """Give up the share-partitions of topics that are gone."""
        for key in [each for each in self._in_use if self._core.topics.with_id(each.topic_id) is None]:
            self.forget(key)

    def forget(self, key: SharePartitionKey) -> None:
        """Give up a share-partition; the next fetch loads it again."""
        found = self._in_use.pop(key, None)
        if found is not None:
            of_place = self._of_place[key[1:]]
            del of_place[key]
            if not of_place:
                del self._of_place[key[1:]]
            found.share_partition.fence()
            self.changed(key)

    def close(self) -> None:
        """Let nothing happen any more."""
        for key in tuple(self._in_use):
            self.forget(key)

    # Waiting

    def watch(self, keys: Collection[SharePartitionKey], wake: Callable[[], None]) -> None:
        """Have `wake` called when there may be more to acquire of a share-partition."""
        for key in keys:
            self._waiting.setdefault(key, {})[wake] = None

    def unwatch(self, keys: Collection[SharePartitionKey], wake: Callable[[], None]) -> None:
        """Call `wake` no more."""
        for key in keys:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.pop(wake, None)
                if not waiting:
                    del self._waiting[key]

    def changed(self, key: SharePartitionKey) -> None:
        """Wake the fetches that wait for records of a share-partition."""
        for wake in tuple(self._waiting.get(key, ())):
            wake()
