"""The coordinator of share groups: heartbeats, departures, timeouts (`GroupMetadataManager.shareGroupHeartbeat`).

A partition can be assigned only after the share coordinator has initialized the state of its share-partition. The
initialization begins after the heartbeat that subscribes to the topic, so a later heartbeat assigns the partition.
"""

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from minibroker.cluster.core import Core
from minibroker.cluster.features import SHARE_VERSION
from minibroker.cluster.routing.slices import ForEach
from minibroker.config.releases import is_before
from minibroker.coordinators.groups.assignors.range import member_specs
from minibroker.coordinators.groups.assignors.simple import assign_simple
from minibroker.coordinators.groups.modern.coordinator import Answer, Client, ModernGroups
from minibroker.coordinators.groups.modern.group import JOINING, GroupRefusedError
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.modern.topics import NOTHING, Partitions, TopicMetadata, find_topics, hash_topics
from minibroker.coordinators.groups.offsets import GroupOffsets
from minibroker.coordinators.groups.share.group import (
    RECORDS,
    ShareGroup,
    ShareMember,
    StatePartitions,
    Topics,
    keys_of,
    state_partitions,
    topics_of_all,
)
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker.coordinators.share_state.coordinator import ShareCoordinator
from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker_protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from minibroker_protocol.messages.share_group import ShareGroupHeartbeatRequest

_EPOCH_BEFORE_MEMBERS: Final = 1
"""The epoch of a new group since Kafka 4.3. The first member starts the next epoch."""
_MIN_TOPIC_BYTES: Final = 24
"""The size in bytes that a topic with one partition adds to the record of share-partitions, without its name."""
_logger = logging.getLogger(__name__)


class ShareGroups(ModernGroups[ShareGroup]):
    """All share groups.

    Attributes:
        states: Returns the share coordinator. The first call creates it.
    """

    group_type = ShareGroup
    replaces_classic = False

    def __init__(
        self, core: Core, store: GroupStore, states: Callable[[], ShareCoordinator], forgotten: Container[str]
    ) -> None:
        super().__init__(core, store, forgotten)
        self.states = states
        self._has_intervals = not is_before(core.config.release, "4.3")

    @property
    def is_enabled(self) -> bool:
        """Whether the feature share.version allows share groups."""
        return self.core.features.level(SHARE_VERSION) > 0

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the interval of a member's heartbeats, in milliseconds."""
        return self.core.configs.group(group_id).integer("share.heartbeat.interval.ms")

    def new_group(self, group_id: str, offsets: GroupOffsets | None = None) -> ShareGroup:
        """See `ModernGroups`."""
        del offsets
        return ShareGroup(group_id, self.core.clock)

    def heartbeat(self, request: "ShareGroupHeartbeatRequest", client: Client) -> Answer:
        """Let a member join, or restart its session. A value of None in a request means no change.

        Raises:
            GroupRefusedError: The member is rejected, or a record could not be written.
        """
        joins = request.member_epoch == JOINING
        names = request.subscribed_topic_names
        group, _ = self.group_for(request.group_id, joins=joins)
        self.check_room(group, request.member_id)
        if joins:
            member = group.member_or_new(request.member_id)
        else:
            member = self.member(group, request.member_id)
            clause = f", and it does not match the previous member epoch ({member.previous_epoch})"
            self.check_epoch(member, request.member_epoch, clause=clause)
        updated = replace(
            member,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            topics=member.topics if names is None else frozenset(names),
            client_id=client.id,
            client_host=client.host,
        )
        moved = self._advance(group, member, updated)
        self.restart_session(group, moved.member_id)
        has_assignment = joins or names is not None or moved.assigned != member.assigned
        return Answer(moved.member_id, moved.epoch, moved.assigned if has_assignment else None)

    def _advance(self, group: ShareGroup, member: ShareMember, updated: ShareMember) -> ShareMember:
        """Write the changes of a heartbeat, and return the changed member.

        Raises:
            GroupRefusedError: A record could not be written.
        """
        changes: list[Change] = []
        if updated != member:
            changes.append(RECORDS.member_metadata(group.group_id, updated))
        bumps = updated.topics != member.topics
        names = group.subscribed_topics()
        if bumps or updated.member_id not in group.members:
            names = topics_of_all({**group.members, updated.member_id: updated}.values())
        bumps |= group.assignment_epoch >= group.epoch and group.waits_for_assignment()
        self._check_size(group, sum(map(len, updated.topics)))
        topics = find_topics(self.core.topics, names, group.topics)
        self._check_size(group, len(topics) * _MIN_TOPIC_BYTES)
        metadata_hash = group.metadata_hash if topics and topics is group.topics else hash_topics(topics)
        epoch = group.epoch
        if bumps or topics is not group.topics:
            bumps |= metadata_hash != group.metadata_hash
            if bumps:
                epoch = max(epoch, _EPOCH_BEFORE_MEMBERS if self._has_intervals else 0) + 1
                changes.append(RECORDS.group_epoch(group.group_id, epoch, metadata_hash))
        target_epoch, target = group.assignment_epoch, group.target_of(updated.member_id)
        if target_epoch < epoch and self._may_assign(group):
            new_target = _make_assignment({**group.members, updated.member_id: updated}, topics, group)
            changes += RECORDS.new_target(group.group_id, new_target, group.target, epoch, self.store.now_ms())
            target_epoch, target = epoch, new_target.get(updated.member_id, NOTHING)
        moved = _reconcile(updated, target_epoch, target, topics, has_new_topics=bumps)
        if moved != updated:
            changes.append(RECORDS.current_assignment(group.group_id, moved))
        if missing := self._find_missing(group, topics):
            changes.append(state_partitions(group.group_id, group.partitions.begin_initialization(missing)))
        self.save(group, changes)
        group.topics = topics
        if missing:
            self.core.call_soon(partial(self._initialize_states, group, missing, epoch))
        else:
            group.complete = topics, group.partitions
        return moved

    def _check_size(self, group: ShareGroup, size: int) -> None:
        """Check, before records are built, whether records of this size in bytes can be written.

        Raises:
            GroupRefusedError: The records are too large.
        """
        if code := self.store.check_size(group.group_id, size):
            raise GroupRefusedError(code)

    def _find_missing(self, group: ShareGroup, topics: Mapping[str, TopicMetadata]) -> Topics:
        """Return the partitions of these topics whose share state must be initialized now."""
        partitions = group.partitions
        was_complete = group.complete is not None and group.complete[0] is topics and group.complete[1] is partitions
        if was_complete and not partitions.initializing:
            return {}
        counts = {topic.topic_id: (name, topic.partitions) for name, topic in topics.items()}
        retry_ms = self.core.config.integer("group.share.initialize.retry.interval.ms")
        return partitions.missing(counts, self.store.now_ms(), retry_ms)

    def _may_assign(self, group: ShareGroup) -> bool:
        """Return whether the last assignment is older than the assignment interval. Always true before Kafka 4.3."""
        interval_ms = self.core.configs.group(group.group_id).integer("share.assignment.interval.ms")
        return not self._has_intervals or group.may_assign_again(interval_ms, self.store.now_ms())

    def _epoch_without(self, group: ShareGroup, member_id: str) -> Change:
        subscribed = topics_of_all(member for member in group.members.values() if member.member_id != member_id)
        topics = find_topics(self.core.topics, subscribed, group.topics)
        return RECORDS.group_epoch(group.group_id, group.epoch + 1, hash_topics(topics))

    def _session_timeout_ms(self, group: ShareGroup, member_id: str) -> int:
        del member_id
        return self.core.configs.group(group.group_id).integer("share.session.timeout.ms")

    def _initialize_states(self, group: ShareGroup, missing: Topics, epoch: int) -> None:
        """Initialize states after the heartbeat that needs them (`GroupCoordinatorService.persisterInitialize`)."""
        states, errors = self.states(), list[ErrorCode]()

        def initialize(key: SharePartitionKey) -> None:
            if code := states.initialize(key, epoch, UNKNOWN).code:
                errors.append(code)
                partition = f"{missing[key.topic_id].name}-{key.partition}"
                _logger.warning("The state of %s of group %s could not be made: %s", partition, key.group_id, code.name)

        def conclude(_: object) -> None:
            if errors:
                self._save_states(group, group.partitions.give_up_initialization(missing))
            else:
                self._save_states(group, group.partitions.finish_initialization(missing))

        keys = keys_of(group.group_id, missing)
        work: ForEach[None] = ForEach(takewhile(lambda _: not errors, keys), initialize)
        self.core.slices.run(work, conclude, partial(_log_failure, group))

    def _save_states(self, group: ShareGroup, partitions: StatePartitions) -> None:
        """Write the share-partitions of a group, unless the group was deleted during their initialization."""
        change = state_partitions(group.group_id, partitions)
        if self.find(group.group_id) is group and (code := self.store.save_changes(group, [change])):
            _logger.warning("The share-partitions of group %s could not be stored: %s", group.group_id, code.name)


def _make_assignment(
    members: Mapping[str, ShareMember], topics: Mapping[str, TopicMetadata], group: ShareGroup
) -> dict[str, Partitions]:
    """Make a target assignment, with members in the order of Kafka's records (`TargetAssignmentBuilder`)."""
    specs, is_homogeneous = member_specs(members, lambda member: member.topics, topics, group.target)
    assigned = assign_simple(specs, group.partitions.indexes(), homogeneous=is_homogeneous)
    return {member_id: assigned.get(member_id, NOTHING) for member_id in hash_order(specs, string_hash)}


def _reconcile(
    member: ShareMember,
    target_epoch: int,
    target: Partitions,
    topics: Mapping[str, TopicMetadata],
    *,
    has_new_topics: bool,
) -> ShareMember:
    """Return the member with its target, reduced to its subscribed topics (Kafka's `ShareGroupAssignmentBuilder`)."""
    if member.epoch == target_epoch and not has_new_topics:
        return member
    subscribed = {topics[name].topic_id for name in member.topics if name in topics}
    assigned = {topic: indexes for topic, indexes in target.items() if topic in subscribed}
    if member.epoch == target_epoch:
        return replace(member, assigned=assigned)
    return replace(member, epoch=target_epoch, previous_epoch=member.epoch, assigned=assigned)


def _log_failure(group: ShareGroup, error: Exception) -> None:
    _logger.error("The states of group %s could not be made", group.group_id, exc_info=error)
