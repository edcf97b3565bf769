"""The tombstones of what groups forget: they are made in steps, and written and acted on in one."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from minibroker.coordinators.coordinator_log import CoordinatorLog
from minibroker.coordinators.groups.classic.group import Group
from minibroker.coordinators.groups.consumer.changes import without_group
from minibroker.coordinators.groups.consumer.group import ConsumerGroup
from minibroker.coordinators.groups.group_records import group_key, offset_key
from minibroker.coordinators.groups.kinds import AnyGroup
from minibroker.coordinators.groups.share.changes import without_group as without_share_group
from minibroker.coordinators.groups.streams.changes import without_group as without_streams_group
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.support.slices import Steps, drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records import NewRecord
from minibroker_storage.data_directory.names import TopicPartition

Choice = Callable[[], list[TopicPartition] | ErrorCode]
"""The partitions whose offsets a group is to forget by what holds now, or the reason why it must not."""

_FEW: Final = 500
"""So many tombstones are made in about 3 ms."""
_MOST: Final = 10_000
_MOST_BYTES: Final = 4 << 20
_KEY_OVERHEAD: Final = 64
_ATTEMPTS: Final = 3


class Forgotten(NamedTuple):
    """The part of a group that it forgets in one step.

    Attributes:
        removed: the partitions whose offsets go.
        group_keys: the keys of the records that describe the group, if it goes, too; otherwise None.
        has_more: whether more offsets go after these.
    """

    removed: list[TopicPartition]
    group_keys: list[bytes] | None
    has_more: bool


def find(group: AnyGroup, choose: Choice, *, wholly: bool, may_go: bool) -> Forgotten | ErrorCode:
    """Look for the part that the group is to forget now.

    An empty group goes when nothing is left of its offsets, if it `may_go`; with `wholly` it goes in any case.
    """
    chosen = choose()
    if isinstance(chosen, ErrorCode):
        return chosen
    removed = chosen[: max(1, min(_MOST, _MOST_BYTES // (len(group.group_id) + _KEY_OVERHEAD)))]
    if len(removed) < len(chosen):
        return Forgotten(removed, None, has_more=True)
    stays = not wholly and (not may_go or not group.is_empty or group.offsets.has_more_than(removed))
    return Forgotten(removed, None if stays else group_keys(group), has_more=False)


def prepare(
    log: CoordinatorLog, group_id: str, found: Callable[[], Forgotten | ErrorCode], now_ms: int
) -> Steps[tuple[Forgotten | ErrorCode, list[bytearray]]]:
    """The part that is `found` when this returns, and the batches of tombstones for it.

    Others are served while many tombstones are made. If something else is found afterwards, all is made again, and at
    last in one step.
    """
    attempt = 0
    while True:
        attempt += 1
        forgotten = found()
        if isinstance(forgotten, ErrorCode):
            return forgotten, []
        steps = _batches(log, group_id, forgotten, now_ms)
        if len(forgotten.removed) <= _FEW or attempt == _ATTEMPTS:
            return forgotten, drain(steps)
        batches = yield from steps
        if found() == forgotten:
            return forgotten, batches


def _batches(log: CoordinatorLog, group_id: str, forgotten: Forgotten, now_ms: int) -> Steps[list[bytearray]]:
    def keys() -> Iterator[bytes]:
        for each in forgotten.removed:
            yield offset_key(group_id, each)
        yield from forgotten.group_keys or ()

    batches: list[bytearray] = []
    for batch in log.tombstone_batches(keys()):
        if batches:
            yield
        made = yield from log.batch_of([NewRecord(key, None, now_ms) for key in batch])
        batches.append(made)
    return batches


def group_keys(group: AnyGroup) -> list[bytes]:
    """The keys of the records that describe a group. A classic one has none in its generation 0."""
    if isinstance(group, Group):
        return [group_key(group.group_id)] if group.generation > 0 else []
    if isinstance(group, ConsumerGroup):
        return [change.encode_key() for change in without_group(group, group.members)]
    if isinstance(group, StreamsGroup):
        return [change.encode_key() for change in without_streams_group(group.group_id, group.members)]
    return [change.encode_key() for change in without_share_group(group.group_id, group.members)]
