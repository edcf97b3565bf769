"""The groups and their offsets as they were at an earlier moment, from the records of `__consumer_offsets`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from minibroker.coordinators.groups.replay import Replay
from minibroker.operations.views.slicing import in_slices
from minibroker.services import Services
from minibroker.support.slices import Steps
from minibroker_protocol.coordinator_records import GroupMetadataValue
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_storage.views.record_view import batches_from

MOST: Final = 200
"""Groups, and members and offsets of each."""
_MOST_BYTES: Final = 1 << 26
"""Bytes of the logs that are read."""
_KINDS: Final = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
"""The types of groups by the beginnings of their keys' names."""


@dataclass(frozen=True, slots=True)
class PastOffset:
    """A committed offset."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PastGroup:
    """A group as it was.

    Attributes:
        type: "classic", "consumer", "share" or "streams".
        generation: or the group's epoch; None for a group that only has offsets.
        members: their client ids, at most 200; `offsets` are the first 200 of `offset_count`.
    """

    group_id: str
    type: str
    generation: int | None
    members: tuple[str, ...]
    offset_count: int
    offsets: tuple[PastOffset, ...]


@dataclass(frozen=True, slots=True)
class PastGroups:
    """The first 200 groups by id. `is_whole` is False when the logs were too long to be read."""

    groups: tuple[PastGroup, ...]
    is_whole: bool


async def past_groups(services: Services, time_ms: int) -> PastGroups:
    """The groups at the end of the millisecond `time_ms`, by the broker's clock.

    Records that compaction has removed since then are missing. `StorageError`, `OSError`.
    """
    return await in_slices(services, _groups(services, time_ms))


def _groups(services: Services, time_ms: int) -> Steps[PastGroups]:
    topic = services.core.topics.get(CONSUMER_OFFSETS)
    if topic is None:
        return PastGroups((), is_whole=True)
    services.core.writes.commit()
    partition_of = services.groups.store.partition_of
    found: dict[str, PastGroup] = {}
    left = _MOST_BYTES
    for each in topic.partitions:
        log = each.log
        if log.log_end_offset > log.log_start_offset and left > 0:
            replay = Replay(f"{CONSUMER_OFFSETS}-{each.index}")
            # Up to a time: the coordinator stamps its records as it writes them.
            for _, _, batch in batches_from(log, log.log_start_offset):
                left -= batch.header.size_in_bytes
                if batch.header.max_timestamp > time_ms or left <= 0:
                    break
                replay.read([batch])
                yield
            yield from replay.finish()
            for group_id in replay.groups:
                # Version 1.0 kept some groups in other partitions; see `coordinators.misplaced`.
                if group_id not in found or partition_of(group_id) == each.index:
                    found[group_id] = _group(replay, group_id)
        yield
    return PastGroups(tuple(found[group_id] for group_id in sorted(found)[:MOST]), is_whole=left > 0)


def _group(replay: Replay, group_id: str) -> PastGroup:
    metadata, offsets = replay.groups[group_id]
    changes = replay.modern_groups.get(group_id, ())
    kind, generation, members = _classic(metadata) if not changes else _modern(changes)
    listed = [
        PastOffset(topic, partition, committed.offset)
        for topic, partitions in sorted(offsets.committed.items())
        for partition, committed in sorted(partitions.items())
    ]
    return PastGroup(group_id, kind, generation, tuple(members[:MOST]), len(listed), tuple(listed[:MOST]))


def _classic(metadata: GroupMetadataValue | None) -> tuple[str, int | None, list[str]]:
    if metadata is None:
        return "classic", None, []
    return "classic", metadata.generation, sorted(each.client_id for each in metadata.members)


def _modern(changes: Sequence[Any]) -> tuple[str, int | None, list[str]]:
    kind, epoch = "consumer", None
    members: list[str] = []
    for each in changes:
        name = type(each.key).__name__
        of_type = next((prefix for prefix in _KINDS if name.startswith(prefix)), "")
        kind = _KINDS.get(of_type, kind)
        if name == f"{of_type}MetadataKey":
            epoch = each.value.epoch
        elif name == f"{of_type}MemberMetadataKey":
            members.append(each.value.client_id)
    return kind, epoch, sorted(members)
