"""Migration of a group between the classic and the consumer protocol (KIP-848, "Online Migration").

A group is upgraded to the consumer protocol when a member of that protocol joins. It is downgraded when the last member
of the consumer protocol leaves and classic members stay, or when that member returns as a static member of the classic
protocol. `group.consumer.migration.policy` restricts the migration of groups with members. An empty group can always
migrate.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from minibroker.cluster.core import Core
from minibroker.cluster.topics import Topics
from minibroker.coordinators.groups.classic.group import Group, Member, Protocol
from minibroker.coordinators.groups.classic.rebalances import Rebalances
from minibroker.coordinators.groups.consumer.group import PROTOCOL_TYPE, RECORDS, ConsumerGroup, ConsumerMember
from minibroker.coordinators.groups.consumer.group_update import GroupUpdate
from minibroker.coordinators.groups.consumer.reconciliation import Rules
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.modern.topics import Partitions, find_topics, freeze_partitions, hash_topics
from minibroker.coordinators.groups.store import GroupStore
from minibroker_protocol.coordinator_records.consumer_groups import ClassicMemberMetadata, ClassicProtocol
from minibroker_protocol.coordinator_records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from minibroker_protocol.coordinator_records.versioned import decode_versioned, encode_versioned, version_of
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.schema import schema_of

_UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
_DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})
_logger = logging.getLogger(__name__)


_CUSTOM_ASSIGNOR: Final = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade."
)


def _upgrade_error(group: Group, because: str) -> GroupRefusedError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {because}"
    return GroupRefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)


class Migration:
    """Upgrades groups to the consumer protocol, and downgrades them to the classic protocol."""

    def __init__(self, core: Core, store: GroupStore, rebalances: Rebalances, rules: Rules) -> None:
        self._core = core
        self._store = store
        self._rebalances = rebalances
        self._rules = rules

    @property
    def _policy(self) -> str:
        return self._core.config.text("group.consumer.migration.policy").lower()

    @property
    def is_disabled(self) -> bool:
        """Whether no classic member can join a consumer group (since Kafka 4.3)."""
        return self._policy == "disabled" and self._rules.since_4_3

    def upgrade(self, classic: Group, max_size: int) -> ConsumerGroup:
        """Convert a classic group with members to a consumer group, and make its members join again.

        Raises:
            GroupRefusedError: GROUP_ID_NOT_FOUND, because the group cannot be converted (with the messages of
                `validateOnlineUpgrade` and `convertToConsumerGroup`), or because its records could not be written.
        """
        if self._policy not in _UPGRADES:
            raise _upgrade_error(classic, "online upgrade is disabled.")
        if classic.protocol_type != PROTOCOL_TYPE:
            raise _upgrade_error(classic, "the group does not use the consumer embedded protocol.")
        if len(classic.members) > max_size:
            raise _upgrade_error(classic, "the group size exceeds the consumer group maximum size.")
        try:
            changes = self._convert_group(classic)
        except DecodeError:
            raise _upgrade_error(classic, "the embedded consumer protocol is malformed.") from None
        group = ConsumerGroup(classic.group_id, classic.offsets)
        if self._store.save_changes(group, changes, self._store.tombstones(classic)):
            raise _upgrade_error(classic, "its records could not be written.")
        self._rebalances.forget(classic, ErrorCode.REBALANCE_IN_PROGRESS)
        return group

    def _convert_group(self, classic: Group) -> list[Change]:
        group_id, epoch = classic.group_id, classic.generation
        members = [self._convert_to_consumer(classic, old_member) for old_member in classic.members.values()]
        return [
            *(RECORDS.member_metadata(group_id, member) for member in members),
            RECORDS.group_epoch(group_id, epoch, self._hash_of(members)),
            *(RECORDS.target_assignment(group_id, member.member_id, member.assigned) for member in members),
            RECORDS.assignment_epoch(group_id, epoch),
            *(RECORDS.current_assignment(group_id, member) for member in members),
        ]

    def _convert_to_consumer(self, classic: Group, member: Member) -> ConsumerMember:
        """Convert a classic member to a member of the new group.

        Raises:
            DecodeError: The member's subscription or assignment is malformed.
            GroupRefusedError: The group uses a custom assignor.
        """
        assignment = ConsumerProtocolAssignment(assigned_partitions=[])
        if member.assignment:  # It is empty before the member's first SyncGroup.
            assignment = decode_versioned(ConsumerProtocolAssignment, member.assignment)
        if assignment.user_data:
            raise _upgrade_error(classic, _CUSTOM_ASSIGNOR)
        subscription = decode_versioned(ConsumerProtocolSubscription, member.metadata(classic.protocol_name))
        protocols = [ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in member.protocols]
        consumer = ConsumerMember(
            member.member_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            classic=ClassicMemberMetadata(session_timeout_ms=member.session_timeout_ms, supported_protocols=protocols),
            epoch=classic.generation,
            previous_epoch=classic.generation,
            assigned=resolve_topic_ids(assignment.assigned_partitions, self._core.topics),
        )
        if self._rules.since_4_3:
            return replace(consumer, epochs=consumer.assign_epochs(consumer.epoch, consumer.assigned))
        return consumer

    def _hash_of(self, members: Iterable[ConsumerMember]) -> int:
        if not self._rules.since_4_1:
            return 0
        names = frozenset[str]().union(*(member.topics for member in members))
        return hash_topics(find_topics(self._core.topics, names, {}))

    def may_downgrade(self, group: ConsumerGroup, removed: Collection[str], *, replaced: bool = False) -> bool:
        """Return whether the group can become a classic group without the members in `removed`.

        Args:
            group: The group.
            removed: Member ids.
            replaced: Whether a member of the classic protocol replaces the removed one.
        """
        remaining = [member for member in group.members.values() if member.member_id not in removed]
        size = len(remaining) + replaced
        return (
            size > 0
            and self._policy in _DOWNGRADES
            and all(member.is_classic for member in remaining)
            and not any(member.is_classic for member in group.members.values() if member.member_id in removed)
            and size <= self._core.config.integer("group.max.size")
        )

    def downgrade(self, group: ConsumerGroup, removed: Collection[str]) -> ErrorCode | None:
        """Convert the group to a classic group of the remaining members, and rebalance it.

        Returns:
            The result of the write, or None if the members' metadata cannot be decoded.
        """
        remaining = [member for member in group.members.values() if member.member_id not in removed]
        return self._downgrade(
            group, remaining, RECORDS.group_tombstones(group.group_id, group.members), rebalances=True
        )

    def downgrade_and_replace(
        self, group: ConsumerGroup, update: GroupUpdate, removed: str, member: ConsumerMember
    ) -> ErrorCode | None:
        """Convert the group like `downgrade`, but put `member` in the place of the removed member.

        The changes in `update` are also written. All members keep their targets, so the group continues without a
        rebalance unless the update raises the group epoch. Kafka 4 does the same.
        """
        others = [other for other in group.members.values() if other.member_id != removed]
        renamed = [member.member_id if other == removed else other for other in group.members]
        changes = [*update.changes, *RECORDS.group_tombstones(group.group_id, renamed)]
        return self._downgrade(group, [*others, member], changes, rebalances=update.epoch > group.assignment_epoch)

    def _downgrade(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], changes: Iterable[Change], *, rebalances: bool
    ) -> ErrorCode | None:
        try:
            classic_members = [self._convert_to_classic(group, member) for member in members]
        except DecodeError as error:
            _logger.warning("Group %s stays one of the consumer protocol: %s", group.group_id, error)
            return None
        classic = Group(group.group_id, self._core.clock)
        classic.offsets = group.offsets
        classic.settle(group.epoch, PROTOCOL_TYPE, classic_members)
        now_ms = self._core.clock.now_ms()
        records = [change.encode(now_ms) for change in changes]
        if not (code := self._store.replace(classic, [*records, self._store.record_of(classic)])):
            for member in classic_members:
                self._rebalances.restart_session(classic, member)
            if rebalances:
                self._rebalances.prepare(classic)
        return code

    def _convert_to_classic(self, group: ConsumerGroup, member: ConsumerMember) -> Member:
        """Convert a member of a consumer group to a classic member.

        Raises:
            DecodeError: The member's subscription has no version.
        """
        assert member.classic is not None
        supported = member.classic.supported_protocols
        protocols = tuple(Protocol(protocol.name, bytes(protocol.metadata)) for protocol in supported)
        return Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.classic.session_timeout_ms,
            protocols,
            encode_assignment(group.target_of(member), self._core.topics, like=protocols[0].metadata),
        )


def resolve_topic_ids(named_partitions: list[TopicPartition], topics: Topics) -> Partitions:
    """Return partitions by topic id. Topics that do not exist are omitted."""
    partitions: dict[bytes, set[int]] = {}
    for listed in named_partitions:
        if (topic := topics.get(listed.topic)) is not None:
            partitions.setdefault(topic.id, set()).update(listed.partitions)
    return freeze_partitions(partitions)


def encode_assignment(partitions: Partitions, topics: Topics, *, like: bytes) -> bytes:
    """Return an encoded assignment in the version of the member's subscription, `like`.

    Raises:
        DecodeError: The subscription has no version.
    """
    topic_partitions = [
        TopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := topics.with_id(topic_id)) is not None
    ]
    versions = schema_of(ConsumerProtocolAssignment).versions
    version = max(versions.first, min(versions.last, version_of(like, "a subscription")))
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topic_partitions), version)
