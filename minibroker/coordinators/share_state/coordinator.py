"""The share coordinator: initializes, reads, writes and deletes states of share-partitions (`ShareCoordinatorService`).

A call returns after its change is in `__share_group_state`. The group coordinator and the leaders of partitions call
the share coordinator directly. Requests from other brokers arrive through its handlers.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from minibroker.cluster.core import Core
from minibroker.cluster.node import Node
from minibroker.cluster.topic_admin import TopicError
from minibroker.coordinators.share_state.state import (
    MAX_BATCHES,
    UNKNOWN,
    Change,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from minibroker.coordinators.share_state.store import ShareStateStore
from minibroker_protocol.error_codes import ErrorCode

_ANY_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0
_NEGATIVE: Final = "The partition id cannot be a negative number."
_READ_UNINITIALIZED: Final = "Read operation on uninitialized share partition not allowed."
_TOO_MANY: Final = f"A share partition has at most {MAX_BATCHES:,} state batches."
_WRITE_UNINITIALIZED: Final = "Write operation on uninitialized share partition not allowed."


class Outcome(NamedTuple):
    """An error code, with a message if there is an error."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ReadOutcome(NamedTuple):
    """A state, or an error; see `ShareState`."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    batches: Sequence[StateBatch] = ()


class Summary(NamedTuple):
    """The offsets of a state, or an error; see `ShareState`.

    The offsets of a share-partition without a state are UNKNOWN.
    """

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN
    delivery_complete_count: int = UNKNOWN


class ShareCoordinator:
    """The share coordinator.

    Methods check that `node` coordinates the share-partition. If it is None, any coordinator is accepted.

    All methods can return NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST
    for a negative partition, and UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist.

    Attributes:
        on_initialized: Called with the key of a state that was initialized or deleted, so that the old state is no
            longer used.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.store = ShareStateStore(core)
        self.on_initialized: Callable[[SharePartitionKey], None] = lambda _: None
        integer = core.config.integer
        cold_ms = integer("share.coordinator.cold.partition.snapshot.interval.ms")
        core.chores.every("share state snapshots", cold_ms, partial(self.store.write_snapshots, cold_ms))
        core.chores.every(
            "share state pruning", integer("share.coordinator.state.topic.prune.interval.ms"), self.store.prune
        )

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, node: Node | None = None
    ) -> Outcome:
        """Initialize a state, replacing any existing state.

        If `start_offset` is UNKNOWN, the leader of the partition chooses the offset.

        Returns:
            NONE, FENCED_STATE_EPOCH if the existing state has a higher epoch, or an error common to all methods.
        """
        if code := self._check_readiness(key, node):
            return _to_outcome(code)
        stored = self.store.get(key)
        if stored is not None and _ANY_EPOCH != state_epoch < stored.state_fence:
            return _to_outcome(ErrorCode.FENCED_STATE_EPOCH)
        if code := self._check_existence(key):
            return _to_outcome(code)
        now_ms = self._core.clock.now_ms()
        state = ShareState(
            snapshot_epoch=_FIRST_EPOCH if stored is None else stored.state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=_FIRST_EPOCH,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN if start_offset == UNKNOWN else 0,
            batches=(),
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )
        code = self.store.write_snapshot(key, state)
        self.on_initialized(key)
        return _to_outcome(code)

    def read(self, key: SharePartitionKey, leader_epoch: int, node: Node | None = None) -> ReadOutcome:
        """Return a state, and record the epoch of the leader that reads it.

        Returns:
            The state, FENCED_LEADER_EPOCH if a later leader has read it, INVALID_REQUEST if no state was
            initialized, or an error common to all methods.
        """
        if code := self._check_readiness(key, node):
            return ReadOutcome(*_to_outcome(code))
        if (stored := self.store.get(key)) is None:
            return ReadOutcome(ErrorCode.INVALID_REQUEST, _READ_UNINITIALIZED)
        if _ANY_EPOCH != leader_epoch < stored.leader_fence:
            return ReadOutcome(*_to_outcome(ErrorCode.FENCED_LEADER_EPOCH))
        if code := self._check_existence(key):
            return ReadOutcome(*_to_outcome(code))
        state = stored.state
        if leader_epoch not in {_ANY_EPOCH, stored.leader_fence}:
            change = Change(leader_epoch, state.start_offset, state.delivery_complete_count, ())
            if code := self.store.change(key, stored, change):
                return ReadOutcome(*_to_outcome(code))
        return ReadOutcome(state_epoch=state.state_epoch, start_offset=state.start_offset, batches=state.batches)

    def write(self, key: SharePartitionKey, state_epoch: int, change: Change, node: Node | None = None) -> Outcome:
        """Change a state. The epochs in the change are checked, but not saved.

        Returns:
            NONE, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH for an epoch older than the state's, INVALID_REQUEST if
            no state was initialized, or an error common to all methods.
        """
        if code := self._check_readiness(key, node):
            return _to_outcome(code)
        if (stored := self.store.get(key)) is None:
            return Outcome(ErrorCode.INVALID_REQUEST, _WRITE_UNINITIALIZED)
        if _ANY_EPOCH != change.leader_epoch < stored.leader_fence:
            return _to_outcome(ErrorCode.FENCED_LEADER_EPOCH)
        if _ANY_EPOCH != state_epoch < stored.state_fence:
            return _to_outcome(ErrorCode.FENCED_STATE_EPOCH)
        if code := self._check_existence(key):
            return _to_outcome(code)
        code = self.store.change(key, stored, change._replace(leader_epoch=stored.state.leader_epoch))
        return Outcome(code, _TOO_MANY) if code is ErrorCode.INVALID_REQUEST else _to_outcome(code)

    def delete(self, key: SharePartitionKey, node: Node | None = None) -> Outcome:
        """Delete a state, if there is one."""
        if code := self._check_readiness(key, node) or self._check_existence(key):
            return _to_outcome(code)
        if self.store.get(key) is None:
            return Outcome()
        code = self.store.remove(key)
        self.on_initialized(key)
        return _to_outcome(code)

    def summary(self, key: SharePartitionKey, node: Node | None = None) -> Summary:
        """Return the offsets of a state."""
        if code := self._check_readiness(key, node) or self._check_existence(key):
            return Summary(*_to_outcome(code))
        if (stored := self.store.get(key)) is None:
            return Summary()
        state = stored.state
        return Summary(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    def forget_deleted_topics(self) -> None:
        """Delete the states of deleted topics, in the background."""
        self._core.chores.run(self.store.remove_topics(), lambda: None)

    def close(self) -> None:
        """Stop loading states."""
        self.store.close()

    def _check_readiness(self, key: SharePartitionKey, node: Node | None) -> ErrorCode:
        # A call from this process creates the topic; a request from another broker does not.
        if node is None:
            try:
                self.store.log.ensure()
            except TopicError:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self.store.state_readiness(key, node)

    def _check_existence(self, key: SharePartitionKey) -> ErrorCode:
        if key.partition < 0:
            return ErrorCode.INVALID_REQUEST
        topic = self._core.topics.with_id(key.topic_id)
        exists = topic is not None and topic.partition(key.partition) is not None
        return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _to_outcome(code: ErrorCode) -> Outcome:
    if not code:
        return Outcome()
    return Outcome(code, _NEGATIVE if code is ErrorCode.INVALID_REQUEST else code.meaning)
