"""Operations on share groups: records in flight, delivery counts, and finished records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from minibroker.cluster.errors import ConflictError, is_the_callers
from minibroker.coordinators.groups.registry import AnyGroup
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.share_partitions.in_flight import NO_MEMBER, RecordState
from minibroker.coordinators.share_partitions.share_partition import SharePartition
from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker.operations.options import DEFAULT_TIMEOUT
from minibroker.operations.waiting import until
from minibroker.operations.wording import Int64
from minibroker.server.services import Services
from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.log import Log

__tracebackhide__ = is_the_callers


@dataclass(frozen=True, slots=True)
class InFlightRecords:
    """Adjacent offsets of a share-partition in the same state.

    Attributes:
        last_offset: The last offset, included.
        state: Kafka's name of the state: `AVAILABLE`, `ACQUIRED`, `ACKNOWLEDGED`, `ARCHIVING` or `ARCHIVED`.
        delivery_count: The number of times that each record was delivered.
        member_id: The member that has acquired the records.
    """

    first_offset: Int64
    last_offset: Int64
    state: str
    delivery_count: int
    member_id: str | None

    @property
    def count(self) -> int:
        """The number of offsets."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class SharePartitionDescription:
    """The state of a partition in a share group (KIP-932).

    Attributes:
        start_offset: The first unfinished offset; None before the first read.
        lag: The number of unfinished offsets from `start_offset` on; None before the first read.
    """

    start_offset: Int64 | None
    lag: Int64 | None
    in_flight: tuple[InFlightRecords, ...]

    @property
    def acquired(self) -> int:
        """The number of offsets that members have acquired."""
        return sum(records.count for records in self.in_flight if records.state == RecordState.ACQUIRED.name)

    @property
    def delivery_counts(self) -> dict[int, int]:
        """The delivery count of each unfinished offset in flight."""
        return {
            offset: records.delivery_count
            for records in self.in_flight
            if not RecordState[records.state].is_final
            for offset in range(records.first_offset, records.last_offset + 1)
        }

    def iterate_unread(self, end: int) -> Iterator[tuple[int, int]]:
        """Yield the unfinished offsets before `end` as half-open ranges (first offset, last offset + 1)."""
        start = end if self.start_offset is None else self.start_offset
        for records in self.in_flight:
            if RecordState[records.state].is_final:
                if start < records.first_offset:
                    yield start, records.first_offset
                start = max(start, records.last_offset + 1)
        if start < end:
            yield start, end


async def share_partitions(services: Services, group_id: str) -> dict[TopicPartition, SharePartitionDescription]:
    """Return the share-partitions of a group by (topic, partition). The result is empty for an unknown group.

    Raises:
        ConflictError: the group is of another type.
    """
    services.core.writes.commit()
    await wait_for_states(services, group_id)
    return describe_loaded_partitions(services, services.groups.store.find(group_id))


async def wait_for_states(services: Services, group_id: str) -> None:
    """Wait until the states of a share group's partitions are loaded from the log of an earlier run."""
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    store = services.share_states.store

    def look() -> bool | None:
        keys = _list_state_keys(services, services.groups.store.find(group_id)).values()
        return None if any(store.state_readiness(key) is loading for key in keys) else True

    await until(look, lambda: f"the states of share group {group_id!r} are still being loaded", DEFAULT_TIMEOUT)


def describe_loaded_partitions(
    services: Services, group: AnyGroup | None
) -> dict[TopicPartition, SharePartitionDescription]:
    """Like share_partitions(), but with the states loaded so far. Partitions without a state look unread."""
    if group is not None and not isinstance(group, ShareGroup):
        raise ConflictError(f"group {group.group_id!r} is of type {group.kind}, not {ShareGroup.kind}")
    descriptions = {pair: _describe(services, pair, key) for pair, key in _list_state_keys(services, group).items()}
    return {pair: state for pair, state in descriptions.items() if state is not None}


def state_logs(services: Services, group: ShareGroup) -> list[Log]:
    """Return the logs that store the states of a share group's partitions."""
    log = services.share_states.store.log
    indexes = {log.partition_of(key.text) for key in _list_state_keys(services, group).values()}
    partitions = [log.partition(index) for index in sorted(indexes)]
    return [partition.log for partition in partitions if partition is not None]


def _list_state_keys(services: Services, group: AnyGroup | None) -> Mapping[TopicPartition, SharePartitionKey]:
    """Return the share-partitions of a group that have a state."""
    if not isinstance(group, ShareGroup):
        return {}
    topics = services.core.topics
    states = [(topics.with_id(topic_id), topic.partitions) for topic_id, topic in group.partitions.initialized.items()]
    return {
        (topic.name, index): SharePartitionKey(group.group_id, topic.id, index)
        for topic, indexes in states
        if topic is not None
        for index in sorted(indexes)
    }


def _describe(services: Services, pair: TopicPartition, key: SharePartitionKey) -> SharePartitionDescription | None:
    """Describe a share-partition from its leader's state or, without a leader, from the stored state.

    Return None if the partition no longer exists.
    """
    partition = services.core.topics.find_partition(*pair)
    if partition is None:
        return None
    in_use = services.share_partitions.find(key)
    start, in_flight = _read_stored_state(services, key) if in_use is None else _read_leader_state(in_use)
    if start == UNKNOWN:
        return SharePartitionDescription(None, None, ())
    finished = sum(records.count for records in in_flight if RecordState[records.state].is_final)
    return SharePartitionDescription(start, max(0, partition.log.high_watermark - start - finished), in_flight)


def _read_leader_state(share_partition: SharePartition) -> tuple[int, tuple[InFlightRecords, ...]]:
    start = share_partition.start_offset
    return start, tuple(
        InFlightRecords(
            max(records.first, start),
            records.last,
            records.state.name,
            records.deliveries,
            None if records.member == NO_MEMBER else records.member,
        )
        for records in share_partition.ranges
        if records.last >= start
    )


def _read_stored_state(services: Services, key: SharePartitionKey) -> tuple[int, tuple[InFlightRecords, ...]]:
    stored = services.share_states.store.get(key)
    if stored is None:
        return UNKNOWN, ()
    start = stored.state.start_offset
    for batch in stored.state.batches:  # A leader that loads this state continues after the finished records.
        if not batch.first <= start <= batch.last or not RecordState(batch.state).is_final:
            break
        start = batch.last + 1
    return start, tuple(
        InFlightRecords(max(batch.first, start), batch.last, RecordState(batch.state).name, batch.deliveries, None)
        for batch in stored.state.batches
        if batch.last >= start
    )
