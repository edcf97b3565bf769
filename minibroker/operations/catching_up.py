"""Waits until a group has read all records."""

from minibroker.cluster.errors import NotFoundError, is_the_callers
from minibroker.cluster.partition import Partition
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.operations import groups
from minibroker.operations.records import record_slices
from minibroker.operations.share_groups import SharePartitionDescription, describe_loaded_partitions, state_logs
from minibroker.operations.waiting import eventually
from minibroker.operations.wording import format_count, missing_message
from minibroker.server.services import Services
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.log import Log

__tracebackhide__ = is_the_callers


class _Progress:
    """A group's committed offsets compared with the partitions it should have read."""

    def __init__(self, services: Services, group_id: str, topic: str | None) -> None:
        self._services = services
        self._group_id = group_id
        self._topic = topic
        self._ahead: dict[Partition, int] = {}
        """The offset of an unread record in each partition. The search continues once the group has committed it."""
        self.committed: dict[TopicPartition, int] = {}
        self._shared: dict[TopicPartition, SharePartitionDescription] | None = None
        """The partitions of a share group; None for other groups."""

    def is_settled(self) -> bool:
        """Return whether the group exists and every member has its assignment."""
        group = groups.find_group(self._services, self._group_id)
        if group is None:
            return False
        description = groups.describe_group(self._services, self._group_id)
        is_stable = group.state in groups.STABLE_STATES or not group.members
        return is_stable and not groups.find_unassigned(self._services, group, description)

    def partitions(self) -> list[Partition]:
        """Return the topic's partitions.

        Without a topic, return all partitions that have a committed offset or are assigned.
        """
        self._services.core.writes.commit()
        if self._topic is not None:
            topic = self._services.core.topics.get(self._topic)
            return [] if topic is None else list(topic.partitions)
        self._load_offsets()
        described = groups.describe_group(self._services, self._group_id)
        assigned = {key for member in described.members for key in member.partitions or ()}
        find = self._services.core.topics.find_partition
        partitions = [find(name, index) for name, index in sorted(self.committed.keys() | assigned)]
        return [partition for partition in partitions if partition is not None]

    async def has_read(self, partition: Partition) -> bool:
        """Return whether the group has read all committed records of a partition. Transaction markers do not count."""
        ahead = self._ahead.get(partition, -1)
        ranges = self._unread_ranges(partition)
        if ranges is None or any(start <= ahead < end for start, end in ranges):
            return False
        for start, end in ranges:
            try:
                first = await self._find_first_record(partition, start)
            # The topic was deleted. If it is created again, the next call examines the new topic.
            except NotFoundError:
                return False
            if first is not None and first < end:
                self._ahead[partition] = first
                return False
        return True

    async def _find_first_record(self, partition: Partition, start: int) -> int | None:
        """Return the offset of the first committed record from `start` on, or None."""
        end = partition.log.last_stable_offset
        async for records in record_slices(self._services, partition, start, end, committed=True):
            if records:
                return records[0].offset
        return None

    def _unread_ranges(self, partition: Partition) -> list[tuple[int, int]] | None:
        """Return the offset ranges that the group has not read, or None if the group has not begun to read."""
        end = partition.log.last_stable_offset
        if self._shared is None:
            start = self.start_of(partition)
            return [(start, end)] if start < end else []
        key = partition.topic.name, partition.index
        if key not in self.committed:
            return None
        return list(self._shared[key].iterate_unread(end))

    def _load_offsets(self) -> None:
        group = groups.find_group(self._services, self._group_id)
        self._shared = describe_loaded_partitions(self._services, group) if isinstance(group, ShareGroup) else None
        self.committed = groups.committed_offsets(self._services, self._group_id)

    def start_of(self, partition: Partition) -> int:
        """Return the offset at which the group would continue: its committed offset, or else the log start offset."""
        offset = self.committed.get((partition.topic.name, partition.index), 0)
        return max(offset, partition.log.log_start_offset)

    async def check(self) -> dict[TopicPartition, int] | None:
        """Return the committed offsets if everything has been read, else None."""
        if not self.is_settled():
            return None
        self._load_offsets()
        partitions = self.partitions()
        if not partitions:
            return None
        for partition in partitions:
            if not await self.has_read(partition):
                return None
        return self.committed

    def logs(self) -> list[Log]:
        """Return the logs whose appends can advance the group: the coordinator's log and the logs that the group reads.

        The result is empty until the group and its partitions are known.
        """
        group = groups.find_group(self._services, self._group_id)
        if group is None:
            return []
        partitions = self.partitions()
        if isinstance(group, ShareGroup):
            if not self.committed:
                return []
            return [*state_logs(self._services, group), *(partition.log for partition in partitions)]
        store = self._services.groups.store
        offsets = store.log.partition(store.partition_of(self._group_id))
        return [partition.log for partition in (offsets, *partitions)] if partitions and offsets is not None else []

    def describe_state(self, timeout: float) -> str:
        """Return a message about the group's current state, for a timeout."""
        read = "everything" if self._topic is None else f"everything in {self._topic!r}"
        description = groups.describe_group(self._services, self._group_id)
        state = f"{description.state}, {format_count(len(description.members), 'member')}"
        lines = [f"group {self._group_id!r} had not read {read} within {timeout:g} s: {state}"]
        if groups.find_group(self._services, self._group_id) is None:
            lines.append(f"  {groups.missing_group_message(self._services, self._group_id)}")
        if self._topic is not None and self._services.core.topics.get(self._topic) is None:
            lines.append(
                f"  {missing_message('topic', self._topic, (topic.name for topic in self._services.core.topics))}"
            )
        for partition in self.partitions():
            end = partition.log.last_stable_offset
            key = partition.topic.name, partition.index
            unread = self._unread_ranges(partition)
            if unread is None:
                lines.append(f"  {partition.topic.name}-{partition.index}: no member has begun to read, end {end}")
            elif unread:
                word = "committed" if self._shared is None else "done before"
                offset = f"{word} {self.committed[key]}" if key in self.committed else "nothing committed"
                lag = sum(until - start for start, until in unread)
                lines.append(f"  {partition.topic.name}-{partition.index}: {offset}, end {end}, {lag} behind")
        return "\n".join(lines)


async def wait_until_caught_up(
    services: Services,
    group_id: str,
    topic: str | None,
    timeout: float,  # noqa: ASYNC109 - part of the API
) -> dict[TopicPartition, int]:
    """Wait until a group has committed past the last record of every partition, and return its committed offsets.

    Only committed records count, as seen by `read_committed` consumers.

    Args:
        services: the broker.
        group_id: the group.
        topic: the topic to wait for, or None for all partitions that have a committed offset or are assigned.
        timeout: in seconds.

    Raises:
        WaitTimeoutError: the message names the partitions with a lag.
    """
    progress = _Progress(services, group_id, topic)
    return await eventually(progress.check, lambda: progress.describe_state(timeout), timeout, progress.logs)
