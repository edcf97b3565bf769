"""Handles admin requests that describe, alter or delete the start offsets of share groups, or delete the groups' state.

The methods correspond to `describeShareGroupOffsets`, `alterShareGroupOffsets`, `deleteShareGroupOffsets` and
`deleteShareGroups` of `GroupCoordinatorService`. They call the share coordinator in steps, for one share-partition at a
time.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.slices import ForEach
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.modern.records import Change
from minibroker.coordinators.groups.share.coordinator import ShareGroups
from minibroker.coordinators.groups.share.group import (
    RECORDS,
    ShareGroup,
    StatePartitions,
    TopicState,
    keys_of,
    state_partitions,
)
from minibroker.coordinators.share_state.coordinator import Outcome
from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker_protocol.error_codes import ErrorCode

_NO_LEADER_EPOCH: Final = 0
_FIRST_EPOCH: Final = 1


class StartOffset(NamedTuple):
    """The start offset of a share group in a partition, or an error. Missing values are UNKNOWN."""

    code: ErrorCode = ErrorCode.NONE
    start_offset: int = UNKNOWN
    leader_epoch: int = _NO_LEADER_EPOCH
    lag: int = UNKNOWN


class ShareOffsets:
    """The start offsets of all share groups of one broker."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups
        self._topics = groups.core.topics
        self._store = groups.store
        self._states = groups.states()

    def find_initialized(self, group_id: str) -> dict[str, list[int]]:
        """Return a group's initialized partitions by topic. The result is empty if the group is not a share group."""
        group = self._groups.find(group_id)
        return {
            topic.name: sorted(state.partitions)
            for topic_id, state in (() if group is None else group.partitions.initialized.items())
            if (topic := self._topics.with_id(topic_id)) is not None
        }

    def start_of(self, group_id: str, topic_name: str, index: int) -> StartOffset:
        """Return the start offset of a group in a partition, or UNKNOWN if the share coordinator returns an error."""
        if (topic := self._topics.get(topic_name)) is None:
            return StartOffset()
        summary = self._states.summary(SharePartitionKey(group_id, topic.id, index))
        if summary.code:
            return StartOffset()
        lag = UNKNOWN
        if UNKNOWN not in {summary.start_offset, summary.delivery_complete_count}:
            if (partition := topic.partition(index)) is None:
                return StartOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            try:
                high_watermark = partition.log.high_watermark
            except MAPPED as error:
                return StartOffset(error_code_of(error))
            lag = high_watermark - summary.start_offset - summary.delivery_complete_count
        return StartOffset(ErrorCode.NONE, summary.start_offset, summary.leader_epoch, lag)

    def alter(self, group_id: str, offsets: Mapping[str, Mapping[int, int]]) -> ForEach[dict[str, dict[int, Outcome]]]:
        """Set start offsets by topic and partition, in steps.

        The group must be empty. An unknown group is created.

        Returns:
            The remaining work. Its result is an outcome for each partition.

        Raises:
            GroupRefusedError: The request is rejected. The returned work can also raise this error.
        """
        group, _ = self._groups.group_for(group_id, joins=True)
        _check_empty(group)
        topics: dict[bytes, TopicState] = {}
        outcomes: dict[str, dict[int, Outcome]] = {}
        now_ms = self._store.now_ms()
        for name, by_index in offsets.items():
            topic = self._topics.get(name)
            existing_indexes = frozenset[int]()
            if topic is not None:
                existing_indexes = frozenset(index for index in by_index if topic.partition(index) is not None)
                if existing_indexes:
                    topics[topic.id] = TopicState(name, existing_indexes, now_ms)
            unknown = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.meaning)
            outcomes[name] = {index: Outcome() if index in existing_indexes else unknown for index in by_index}
        if topics:
            change = state_partitions(group_id, group.partitions.begin_initialization(topics))
            self._groups.save(group, [*self._first_epochs(group), change])

        def initialize(key: SharePartitionKey) -> ErrorCode:
            name = topics[key.topic_id].name
            outcome = self._states.initialize(key, group.epoch, offsets[name][key.partition])
            outcomes[name][key.partition] = outcome
            return outcome.code

        def conclude(codes: list[ErrorCode]) -> dict[str, dict[int, Outcome]]:
            if topics and not any(codes) and self._still_exists(group):
                self._save(group, group.partitions.finish_initialization(topics))
            return outcomes

        return ForEach(keys_of(group_id, topics), initialize, conclude)

    def delete(self, group_id: str, topics: Sequence[str]) -> ForEach[dict[str, Outcome]]:
        """Delete the start offsets of an empty group in some topics, in steps.

        Returns:
            The remaining work. Its result is an outcome for each topic.

        Raises:
            GroupRefusedError: The request is rejected. The returned work can also raise this error.
        """
        group = self._groups.existing(group_id)
        _check_empty(group)
        deleting: dict[bytes, TopicState] = {}
        outcomes: dict[str, Outcome] = {}
        for name in topics:
            if (topic := self._topics.get(name)) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                outcomes[name] = Outcome(code, code.meaning)
            elif topic.id in group.partitions.initialized:
                deleting[topic.id] = group.partitions.initialized[topic.id]
            elif topic.id in group.partitions.deleting:
                deleting[topic.id] = TopicState(name, frozenset(range(len(topic.partitions))))
            else:
                message = "There is no offset information to delete."
                outcomes[name] = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        if deleting:
            self._save(
                group, group.partitions.begin_deletion({topic_id: state.name for topic_id, state in deleting.items()})
            )
        outcomes.update({state.name: Outcome() for state in deleting.values()})

        def delete(key: SharePartitionKey) -> None:
            name = deleting[key.topic_id].name
            if not outcomes[name].code:
                outcomes[name] = self._states.delete(key)

        def conclude(_: object) -> dict[str, Outcome]:
            deleted = [topic_id for topic_id, state in deleting.items() if not outcomes[state.name].code]
            if deleted and self._still_exists(group):
                self._save(group, group.partitions.finish_deletion(deleted))
            return outcomes

        return ForEach(keys_of(group_id, deleting), delete, conclude)

    def delete_states(self, group: ShareGroup) -> ErrorCode | ForEach[ErrorCode]:
        """Delete the states of all partitions of an empty group, before the group is deleted."""
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        topics = group.partitions.everything()
        for topic_id, name in group.partitions.deleting.items():
            if (topic := self._topics.with_id(topic_id)) is not None:
                topics[topic_id] = TopicState(name, frozenset(range(len(topic.partitions))))
        topics = {topic_id: state for topic_id, state in topics.items() if self._topics.with_id(topic_id) is not None}
        if topics:
            deleting = {topic_id: state.name for topic_id, state in topics.items()}
            try:
                self._save(group, StatePartitions(deleting=deleting))
            except GroupRefusedError as error:
                return error.code
        errors: list[ErrorCode] = []

        def delete(key: SharePartitionKey) -> None:
            if code := self._states.delete(key).code:
                errors.append(code)

        keys = takewhile(lambda _: not errors, keys_of(group.group_id, topics))
        return ForEach(keys, delete, lambda _: errors[0] if errors else ErrorCode.NONE)

    def _still_exists(self, group: ShareGroup) -> bool:
        """Return whether the group has not been deleted."""
        return self._groups.find(group.group_id) is group

    def _first_epochs(self, group: ShareGroup) -> list[Change]:
        """Return the epoch records of a new group with an empty assignment."""
        if self._still_exists(group):
            return []
        return [
            RECORDS.group_epoch(group.group_id, _FIRST_EPOCH, 0),
            RECORDS.assignment_epoch(group.group_id, _FIRST_EPOCH, self._store.now_ms()),
        ]

    def _save(self, group: ShareGroup, partitions: StatePartitions) -> None:
        self._groups.save(group, [state_partitions(group.group_id, partitions)])


def _check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise GroupRefusedError(ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP.meaning)
